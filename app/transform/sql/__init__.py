"""SQL of the user's own for some tables: `where` says which rows go on, `select` what of them.

    driver   analysis   Spark reads the SQL and says what it means: every name, type and implicit cast
             catalyst   what it says, as plain data; what is not known to give the same result here is refused
    task     rewriting  the rows of a batch, each sent through the functions that are made of that
             evaluating, casts, numbers, texts, patterns, dates   those functions

Spark is asked once, at the start; no row goes through it. The target then holds what the query over the source's table
holds: a row that `where` leaves out is deleted there, should it be there.
"""

from app.transform.sql.rewriting import Sql
from app.transform.sql.rule import Rule

__all__ = ["Rule", "Sql"]
