"""From Kafka's bytes to COPY lines: pure, and the same for every table.

    decoder      protocol of a format
    formats      the formats, a line for each
    debezium     Debezium's JSON: in Python, and by compiled code
    scan_kernel  what is compiled of it;  scan_loader  compiles it once, and loads it
    decoding     a decoder, followed by the user's SQL and function
    schema       the Connect schema in a message

Promise: a message becomes exactly one row of `app.model.rows`, whatever its bytes are. No table is known here;
`app.apply.encoding` decides what a column's text means in Postgres.
"""
