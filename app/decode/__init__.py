"""From Kafka's bytes to COPY lines: pure, and the same for every table.

    debezium   the decoder: in Python, and by compiled code
    scanner    that code, loaded;  scan: what is compiled
    decoding   the decoder, with the user's SQL and function behind it

Promise: a message becomes exactly one row of `app.model.rows`, whatever its bytes are. Nothing here knows a table; what
a column's text means in Postgres is decided in `app.apply.encoding`.
"""
