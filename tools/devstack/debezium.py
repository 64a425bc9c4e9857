"""The Debezium connector of the local stack: every table of one schema into one topic, in one order.

One topic with one partition has the order of the source as a whole, transaction markers included. Values travel as
JSON without schemas, so what JSON would round or Debezium would leave out is sent as text.
"""

import re
from urllib.parse import urlsplit

#: Debezium's own prefix; no topic keeps it, all are routed to one.
PREFIX = "cdc"
SCHEMA = "public"


def connector(source_url: str, topic: str, name: str) -> dict[str, str]:
    """The connector's configuration. `name` also names its replication slot and publication."""
    url = urlsplit(source_url)
    identifier = re.sub(r"\W", "_", name.lower())
    database = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": url.hostname or "",
        "database.port": str(url.port),
        "database.user": url.username or "",
        "database.password": url.password or "",
        "database.dbname": url.path.lstrip("/"),
        "database.sslmode": "disable",
        "plugin.name": "pgoutput",
        "slot.name": identifier,
        "publication.name": identifier,
        # One publication for all tables, those of tomorrow included; what is captured is chosen by the next line.
        "publication.autocreate.mode": "all_tables",
        "schema.include.list": SCHEMA,
    }
    routing = {
        "topic.prefix": PREFIX,
        "transforms": "one",
        "transforms.one.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.one.regex": rf"{PREFIX}\.({SCHEMA}\..*|transaction)",
        "transforms.one.replacement": topic,
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
    }
    content = {
        "snapshot.mode": "initial",
        "provide.transaction.metadata": "true",
        "tombstones.on.delete": "true",
        "skipped.operations": "none",  # truncates too
        "heartbeat.interval.ms": "0",
        "decimal.handling.mode": "string",
        "interval.handling.mode": "string",
        "include.unknown.datatypes": "true",
    }
    latency = {
        "poll.interval.ms": "20",
        "producer.override.linger.ms": "0",
        "retriable.restart.connector.wait.ms": "1000",
        "errors.max.retries": "-1",
    }
    return database | routing | content | latency
