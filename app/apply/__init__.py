"""Applying an epoch's changes inside a transaction that somebody else opened and will end.

    arrange   one row for each message -> ordered changes, and the last one of each key (compaction)
    target    what the target table looks like
    encoding  what the text of a column means, and the SQL that turns it into the column's type
    staging   COPY into an UNLOGGED table (a temp table would forbid PREPARE TRANSACTION)
    reclaiming  giving back its space, beside the next epoch
    merge     one DELETE and one MERGE (or INSERT ... ON CONFLICT) for each table
    plan      in which order; from the fast one to the faithful one

Promise: after `apply` returns, the transaction holds exactly the effect of the epoch's changes in their order. If it
raises, the transaction is to be rolled back; nothing outside it was touched but the content of staging tables.
"""
