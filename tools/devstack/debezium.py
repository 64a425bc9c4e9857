"""The Debezium connector of the local stack: all tables of one schema go to one topic.

One topic with one partition keeps the total order of the source, transaction markers included. Values are JSON
without schemas, so values that JSON would round or Debezium would omit are sent as text.
"""

import re
from urllib.parse import urlsplit

#: Debezium's topic prefix; no topic has it, because all are routed to one topic.
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
        # One publication for all tables, future ones included; the next line selects which schema is captured.
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
        "skipped.operations": "none",  # capture truncates, too
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
