"""The peer Debezium JDBC sink, with the fastest settings that were tried, on a separate Connect worker.

The messages have no schema. The sink needs one, so the worker's configuration has it (`schema.content`), which is
faster than a schema in each message: 33,000 messages/s instead of 18,000.
"""

import json
from contextlib import AbstractContextManager
from pathlib import Path

from app.jars import classpath
from tools.devstack.connect import plugin_dir
from tools.devstack.ports import LOOPBACK, remembered_port
from tools.devstack.roles import LOGIN
from tools.peers import child, javajobs
from tools.peers.child import Child
from tools.peers.javajobs import ROWS
from tools.testbed.servers import Servers
from tools.testbed.tables import BEGIN_MICROS, TABLE
from tools.testbed.workload import Change, Kind, Workload, key_of, transaction_of, value_of

#: the worker logs this when the sink's task has failed; the worker itself continues
GIVEN_UP = b"Task is being killed"
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"

Schema = dict[str, object]
_REQUIRED = ("id", "op")


def running(servers: Servers, topic: str, folder: Path) -> AbstractContextManager[Child]:
    """Start worker and sink; they read from the beginning of `topic`."""
    files = [folder / "worker.properties", folder / "sink.properties"]
    for file, settings in zip(files, (worker(servers.bootstrap, folder), sink(servers, topic)), strict=True):
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    options = ["-Dorg.slf4j.simpleLogger.log.org.reflections=error"]
    return javajobs.running(_MAIN, classpath("connect"), files, folder, options=options, fatal=GIVEN_UP)


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
        "batch.size": str(ROWS),
        "use.reduction.buffer": "true",
        "use.time.zone": "UTC",
        "consumer.override.auto.offset.reset": "earliest",
        "consumer.override.max.poll.records": str(ROWS),
        "consumer.override.max.partition.fetch.bytes": "33554432",
        "consumer.override.fetch.max.bytes": "67108864",
    }


def key_schema() -> Schema:
    """Schema of the message key, in Kafka Connect's form."""
    return _schema("", json.loads(key_of(_update())), "Key")


def value_schema() -> Schema:
    """Schema of the message value, Debezium's envelope, as a message has it."""
    return _schema("", json.loads(value_of(_update(), 0, BEGIN_MICROS, transaction_of(0))), "Envelope")


def _update() -> Change:
    """A change with both images."""
    return next(change for change in Workload(Kind.UNIFORM.shape, 1000) if change.op == "u")


def _schema(field: str, value: object, name: str = "") -> Schema:
    """Of a value of JSON; `name`: of the outermost struct."""
    known: Schema = {"optional": not name and field not in _REQUIRED, "field": field}
    if isinstance(value, dict):
        fields = [_schema(inner, of_inner) for inner, of_inner in value.items()]
        return {**known, "type": "struct", "name": f"bench.{name or field}", "fields": fields}
    if field in TABLE.columns and TABLE.columns[field].ddl == "timestamptz":
        return {**known, "type": "string", "name": "io.debezium.time.ZonedTimestamp", "version": 1}
    return {**known, "type": "string" if isinstance(value, str) else "int64"}
