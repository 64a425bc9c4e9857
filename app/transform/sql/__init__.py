"""The user's SQL for some tables: `where` says which rows go on, `select` which columns of them.

    driver   analysis   Spark analyses the SQL: every name, type and implicit cast
             catalyst   its analysis as plain data; what is not known to give the same result here is refused
    task     rewriting  applies the functions that are compiled from that to the rows of a batch
             evaluating, casts, numbers, texts, patterns, dates   those functions

Spark analyses once, at the start; no row goes through it. The target then holds what the query over the source's table
holds: a row that `where` leaves out is deleted there if it exists.
"""

from app.transform.sql.rewriting import Sql
from app.transform.sql.rule import Rule

__all__ = ["Rule", "Sql"]
