"""Applies an epoch's changes inside a transaction that the caller opens and ends.

    target_tables   target tables as the catalog describes them
    table_plans     layout of a message -> its target table, staging table and SQL
    encoding        what the text of a column means;  conversion  the SQL that turns it into the column's type
    staging         UNLOGGED tables, filled by COPY (a temp table would forbid PREPARE TRANSACTION)
    staging_vacuum  gives its space back, beside the next epoch
    merge           one DELETE and one MERGE (or INSERT ... ON CONFLICT) for each table
    order_plan      the order of the statements; from the fast plan to the faithful one
    applier         sends them

Promise: after `apply` returns, the transaction holds exactly the effect of the epoch's changes in their order. If it
raises, the caller has to roll the transaction back; outside it only the content of staging tables was touched.
"""
