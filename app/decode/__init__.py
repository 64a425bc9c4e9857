"""From Kafka's bytes to COPY lines: pure, and the same for every table.

    debezium   as Spark expressions, in parallel
    driver     in this process: in Python, and by compiled code
    scanner    that code, loaded;  scan: what is compiled

Promise: a message becomes exactly one row of `DECODED`, whatever its bytes are. Nothing here knows a table, so a new
table needs no new query plan; what a column's text means in Postgres is decided in `app.apply.encoding`.
"""
