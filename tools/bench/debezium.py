"""The peer Debezium JDBC sink, with the fastest settings that were tried, on a separate Connect worker.

The messages have no schema. The sink needs one, so the worker's configuration has it (`schema.content`), which is
faster than a schema in each message: 33,000 messages/s instead of 18,000.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from app.jars import classpath
from app.java import java
from tools.bench import child
from tools.bench.child import Child
from tools.bench.servers import Servers
from tools.bench.tables import TABLE
from tools.devstack.connect import plugin_dir
from tools.devstack.ports import LOOPBACK, remembered_port
from tools.devstack.roles import LOGIN

BATCH = 5000
#: the worker logs this when the sink's task has failed; the worker itself continues
GIVEN_UP = b"Task is being killed"
JAVA_OPTIONS = (
    "-Xms1g",
    "-Xmx2g",
    "-Duser.timezone=UTC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.org.reflections=error",
)
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"

Schema = dict[str, object]


@contextmanager
def running(servers: Servers, topic: str, folder: Path) -> Iterator[Child]:
    """Start worker and sink; they read from the beginning of `topic`."""
    files = [
        _properties(folder / "worker.properties", worker(servers.bootstrap, folder)),
        _properties(folder / "sink.properties", sink(servers, topic)),
    ]
    command = [str(java()), *JAVA_OPTIONS, "-cp", classpath("connect"), _MAIN, *files]
    with child.running(command, folder, Child, fatal=GIVEN_UP) as started:
        yield started


def pieces() -> None:
    """Fetch the plugin and the worker's jars unless they are cached."""
    plugin_dir("jdbc-sink")
    classpath("connect")


def worker(bootstrap: str, folder: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "key.converter": _CONVERTER,
        "key.converter.schema.content": json.dumps(key_schema()),
        "value.converter": _CONVERTER,
        "value.converter.schema.content": json.dumps(value_schema()),
        "offset.storage.file.filename": str(folder / "offsets"),
        "listeners": f"http://{LOOPBACK}:{remembered_port(folder / 'port')}",
        "plugin.path": str(plugin_dir("jdbc-sink")),
        "plugin.discovery": "service_load",
        "connector.client.config.override.policy": "All",
    }


def sink(servers: Servers, topic: str) -> dict[str, str]:
    """The sink's settings: large batches, compacted to the last change of each key, many rows a statement."""
    return {
        "name": child.unused_name(),  # also names its consumer group
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        # amounts are text in the messages
        "connection.url": f"{servers.jdbc}?reWriteBatchedInserts=true&stringtype=unspecified",
        "connection.username": LOGIN,
        "connection.password": "none",
        "connection.pool.min_size": "2",
        "connection.pool.max_size": "8",
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "primary.key.fields": "id",
        "schema.evolution": "none",
        "collection.name.format": TABLE.name,
        "batch.size": str(BATCH),
        "use.reduction.buffer": "true",
        "use.time.zone": "UTC",
        "consumer.override.auto.offset.reset": "earliest",
        "consumer.override.max.poll.records": str(BATCH),
        "consumer.override.max.partition.fetch.bytes": "33554432",
        "consumer.override.fetch.max.bytes": "67108864",
    }


def key_schema() -> Schema:
    """Schema of the message key, in Kafka Connect's form."""
    return _struct("pg.public.bench.Key", [_field("id", "int64", optional=False)])


def value_schema() -> Schema:
    """Schema of the message value: Debezium's envelope."""
    row = [_column(name, kind.ddl) for name, kind in TABLE.columns.items()]
    images = [{**_struct("pg.public.bench.Value", row), "optional": True, "field": field} for field in _IMAGES]
    source = {**_struct("io.debezium.connector.postgresql.Source", _fields(_SOURCE)), "field": "source"}
    block = _fields({"id": "string", "total_order": "int64", "data_collection_order": "int64"})
    transaction = {**_struct("event.block", block), "optional": True, "field": "transaction"}
    times = _fields({"ts_ms": "int64", "ts_us": "int64", "ts_ns": "int64"})
    operation = _field("op", "string", optional=False)
    return _struct("pg.public.bench.Envelope", [*images, source, transaction, operation, *times])


_IMAGES = ("before", "after")
_SOURCE = {
    "version": "string",
    "connector": "string",
    "name": "string",
    "ts_ms": "int64",
    "snapshot": "string",
    "db": "string",
    "sequence": "string",
    "ts_us": "int64",
    "ts_ns": "int64",
    "schema": "string",
    "table": "string",
    "txId": "int64",
    "lsn": "int64",
    "xmin": "int64",
}


def _struct(name: str, fields: list[Schema]) -> Schema:
    return {"type": "struct", "fields": fields, "optional": False, "name": name}


def _fields(kinds: Mapping[str, str]) -> list[Schema]:
    return [_field(name, kind) for name, kind in kinds.items()]


def _field(name: str, kind: str, *, optional: bool = True) -> Schema:
    return {"type": kind, "optional": optional, "field": name}


def _column(name: str, ddl: str) -> Schema:
    if ddl == "timestamptz":
        return {**_field(name, "string"), "name": "io.debezium.time.ZonedTimestamp", "version": 1}
    return _field(name, "int64", optional=False) if ddl == "bigint" else _field(name, "string")


def _properties(file: Path, settings: Mapping[str, str]) -> str:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(file)
