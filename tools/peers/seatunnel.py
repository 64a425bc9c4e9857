"""The peer Apache SeaTunnel: its own engine with one job in one process, Kafka to its JDBC sink with `is_exactly_once`
(XA). Its start script is not in a Maven repository: `java/seatunnel` does what it does with `-m local`."""

import json
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

from app.jars import jars
from tools.devstack.ports import remembered_port
from tools.devstack.roles import LOGIN
from tools.peers import child, javajobs
from tools.peers.child import Child
from tools.peers.javajobs import CHECKPOINT_MILLISECONDS, ROWS
from tools.testbed.servers import DATABASE, Servers
from tools.testbed.tables import TABLE

_CONNECTORS = {"connector-kafka": "seatunnel.source.Kafka", "connector-jdbc": "seatunnel.sink.Jdbc"}


def running(servers: Servers, topic: str, folder: Path) -> AbstractContextManager[Child]:
    """Start engine and job; it reads from the beginning of `topic`."""
    engine, job, home = folder / "engine.yaml", folder / "job.conf", folder / "home"
    engine.write_text(json.dumps({"seatunnel": {"engine": _engine(folder)}}))
    job.write_text(json.dumps(_job(servers, topic), indent=1))
    _make_home(home / "connectors")
    path, words = javajobs.class_path("seatunnel", "connector-"), [engine, job, remembered_port(folder / "port")]
    options = ["-Dlog4j2.level=warn", f"-DSEATUNNEL_HOME={home}"]
    return javajobs.running("peers.SeaTunnelJob", path, words, folder, options=options)


def _engine(folder: Path) -> dict[str, object]:
    storage = {"type": "localfile", "max-retained": 3, "plugin-config": {"namespace": str(folder / "checkpoints")}}
    checkpoint = {"interval": CHECKPOINT_MILLISECONDS, "timeout": 60_000, "storage": storage}
    return {"backup-count": 0, "slot-service": {"dynamic-slot": True}, "checkpoint": checkpoint}


def _job(servers: Servers, topic: str) -> dict[str, object]:
    # amounts and times are text in the messages; Postgres makes of text what the column is
    columns = {name: "bigint" if kind.ddl == "bigint" else "string" for name, kind in TABLE.columns.items()}
    source = {
        "plugin_name": "Kafka",
        "topic": topic.replace(".", r"\W"),  # it would take the parts of a name with dots for database and table
        "pattern": True,
        "bootstrap.servers": servers.bootstrap,
        "consumer.group": child.unused_name(),
        "start_mode": "earliest",
        "format": "debezium_json",
        "debezium_record_include_schema": False,
        "kafka.config": {"max.partition.fetch.bytes": "16777216", "max.poll.records": str(ROWS)},
        "schema": {"table": TABLE.name, "fields": columns},
    }
    sink = {
        "plugin_name": "Jdbc",
        "url": f"{servers.jdbc}?reWriteBatchedInserts=true&stringtype=unspecified",
        "driver": "org.postgresql.Driver",
        "user": LOGIN,
        "database": DATABASE,
        "table": f"public.{TABLE.name}",
        "generate_sink_sql": True,
        "primary_keys": ["id"],
        "is_exactly_once": True,
        "xa_data_source_class_name": "org.postgresql.xa.PGXADataSource",
        "max_retries": 0,
        "batch_size": ROWS,
    }
    env = {"parallelism": 1, "job.mode": "STREAMING", "checkpoint.interval": CHECKPOINT_MILLISECONDS}
    return {"env": env, "source": [source], "sink": [sink]}


def _make_home(folder: Path) -> None:
    """What its scripts install: the connectors, which a job loads from there, and which of them has what."""
    folder.mkdir(parents=True)
    for jar in jars("seatunnel"):
        if jar.name.startswith(tuple(_CONNECTORS)) and "connector-common" not in jar.name:
            shutil.copy(jar, folder)
    lines = [f"{what} = {connector}\n" for connector, what in _CONNECTORS.items()]
    (folder / "plugin-mapping.properties").write_text("".join(lines))
