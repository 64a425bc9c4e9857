"""From Kafka's bytes to COPY lines: pure, and the same for every table.

    decoder      what a format has to give
    formats      the formats, a line for each
    debezium     Debezium's JSON: in Python, and by compiled code
    scan_kernel  what is compiled of it;  scan_loader  compiles it once, and loads it
    decoding     a decoder, with the user's SQL and function behind it

Promise: a message becomes exactly one row of `app.model.rows`, whatever its bytes are. Nothing here knows a table; what
a column's text means in Postgres is decided in `app.apply.encoding`.
"""
