"""From Kafka's bytes to COPY lines, as Spark expressions: parallel, pure, and the same for every table.

Promise: a message becomes exactly one row of `DECODED`, whatever its bytes are. Nothing here knows a table, so a new
table needs no new query plan; what a column's text means in Postgres is decided in `app.apply.encoding`.
"""
