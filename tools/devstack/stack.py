"""The local stack: a source Postgres, Debezium on Kafka Connect, Kafka, and a target Postgres, all real.

    source (shop) --pgoutput--> Connect/Debezium --> Kafka topic shop.cdc        target (shop), written by a lane

The parts are background processes. All of their state is in one data directory, so one command can start them and
another can stop them; only processes recorded there are stopped.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from app.cache import locked
from app.errors import EnvironmentMissing
from app.jars import artifacts
from tools.devstack.connect import Connect
from tools.devstack.debezium import connector
from tools.devstack.kafka import SMALL, Kafka
from tools.devstack.places import stack_dir
from tools.devstack.postgres import Postgres
from tools.devstack.roles import LOGIN, OWNER, make_roles
from tools.devstack.wait import wait_for

TOPIC = "shop.cdc"
DATABASE = "shop"
STREAMING_SECONDS = 120.0
#: file that marks the data directory of a stack; a directory without it is not wiped
MARKER = "surelane-stack"

SOURCE_SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
}
TARGET_SETTINGS = {
    "max_prepared_transactions": "64",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
}


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """Addresses of the parts; None for a part that was not requested."""

    kafka: str | None
    connect: str | None
    topic: str | None
    source_url: str | None
    target_url: str | None  #: with the lane's login
    target_role: str | None  #: the role for `target.owner_role`
    data_dir: str


@dataclass(frozen=True, kw_only=True)
class PartStatus:
    name: str
    running: bool
    pid: int | None
    address: str | None  #: None: never started


class Stack:
    """A named local stack with the parts `kafka`, `connect`, `source`, `target`."""

    def __init__(
        self,
        name: str = "default",
        data_dir: Path | None = None,
        *,
        connect_properties: Mapping[str, str] | None = None,
        connector_config: Mapping[str, str] | None = None,
        broker_java: Sequence[str] = SMALL,
    ) -> None:
        """`connect_properties` override the worker's settings, `connector_config` those of the Debezium connector;
        `broker_java`: options of Kafka's JVM."""
        self.name = name
        self.data_dir = data_dir or stack_dir(name)
        self.kafka = Kafka(self.data_dir / "kafka", java_options=broker_java)
        self.source = Postgres(self.data_dir / "source", settings=SOURCE_SETTINGS)
        self.target = Postgres(self.data_dir / "target", settings=TARGET_SETTINGS)
        self.connect = Connect(self.data_dir / "connect", kafka=self.kafka, properties=connect_properties or {})
        self._connector_config = connector_config or {}

    def up(
        self,
        *,
        kafka: bool = True,
        connect: bool = True,
        source: bool = True,
        target: bool = True,
        capture: bool = True,
    ) -> Endpoints:
        """Start the requested parts that do not run, in parallel; returns when all of them accept requests.

        Connect needs Kafka and the source: without one of them it does not start either. Without `capture` it has no
        connector until `Stack.capture` starts one.
        """
        connect = connect and kafka and source
        self._claim()
        with locked(self.data_dir / "lock"):
            chosen: list[tuple[bool, Callable[[], None]]] = [
                (kafka, self._start_kafka_and_connect if connect else self._start_kafka),
                (source, lambda: _start_shop(self.source)),
                (target, self._start_target),
            ]
            _all_at_once([start for wanted, start in chosen if wanted])
            if connect and capture:
                self.capture(DATABASE, TOPIC, self._connector_config)
        return Endpoints(
            kafka=self.kafka.bootstrap if kafka else None,
            connect=self.connect.url if connect else None,
            topic=TOPIC if kafka else None,
            source_url=self.source.url(DATABASE) if source else None,
            target_url=self.target.url(DATABASE, LOGIN) if target else None,
            target_role=OWNER if target else None,
            data_dir=str(self.data_dir),
        )

    def down(self, *, wipe: bool = False) -> None:
        """Stop every part that runs; with `wipe`, kill them and remove the data."""
        if not (self.data_dir / MARKER).exists():
            return
        with locked(self.data_dir / "lock"):
            if wipe:
                _all_at_once([part.kill for part in (self.connect, self.kafka, self.source, self.target)])
                shutil.rmtree(self.data_dir)
            else:
                self.connect.stop()  # first, while Kafka still runs
                _all_at_once([part.stop for part in (self.kafka, self.source, self.target)])

    def status(self) -> list[PartStatus]:
        """Every part, running or not, in the order of the data flow."""
        return [
            _status("source", self.source.pid, lambda: self.source.url(DATABASE)),
            _status("connect", self.connect.pid, lambda: self.connect.url),
            _status("kafka", self.kafka.pid, lambda: self.kafka.bootstrap),
            _status("target", self.target.pid, lambda: self.target.url(DATABASE, LOGIN)),
        ]

    def _claim(self) -> None:
        """Mark the data directory as a stack's; raises EnvironmentMissing if it contains something else."""
        marker = self.data_dir / MARKER
        if self.data_dir.exists() and any(self.data_dir.iterdir()) and not marker.exists():
            raise EnvironmentMissing(f"{self.data_dir} holds something else", hint="choose an empty data directory")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        marker.touch()

    def _start_target(self) -> None:
        """Start the target. The superuser owns its tables; the lane's role may write rows."""
        _start_shop(self.target)
        make_roles(self.target.url(DATABASE))

    def _start_kafka(self) -> None:
        self.kafka.start()
        self.kafka.create_topic(TOPIC)

    def _start_kafka_and_connect(self) -> None:
        _all_at_once([lambda: artifacts("kafka"), lambda: artifacts("connect")])  # the first use fetches them
        self.kafka.launch()
        self.connect.launch()
        self._start_kafka()
        self.connect.wait_ready()

    def capture(self, database: str, topic: str, config: Mapping[str, str] = {}) -> None:
        """Start a connector, named like the database, on a database of the source; `config` overrides its settings.

        Returns once it streams the WAL, when the initial snapshot is complete.
        """
        self.connect.register(database, {**connector(self.source.url(database), topic, database), **config})
        hint = f"read {self.connect.daemon.log_file}"
        reading = f"Debezium to read the log of {database}"
        wait_for(lambda: self._is_streaming(database), reason=reading, seconds=STREAMING_SECONDS, hint=hint)

    def release(self, database: str) -> None:
        """Delete the database's connector, and drop its replication slot."""
        self.connect.delete(database)
        free = "SELECT FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
        reason = f"the end of the reading of {database}"
        wait_for(lambda: bool(self.source.execute(free, database)), reason=reason, seconds=STREAMING_SECONDS)
        self.source.execute("SELECT pg_drop_replication_slot(%s)", database)

    def _is_streaming(self, database: str) -> bool:
        """Whether the connector runs and streams the source's WAL; raises EnvironmentMissing if it has failed."""
        if not self.connect.is_running(database):
            return False
        return bool(self.source.execute("SELECT FROM pg_replication_slots WHERE slot_name = %s AND active", database))


def _start_shop(server: Postgres) -> None:
    server.start()
    server.create_database(DATABASE)


def _status(name: str, pid: int | None, address: Callable[[], str]) -> PartStatus:
    try:
        return PartStatus(name=name, running=pid is not None, pid=pid, address=address())
    except EnvironmentMissing:  # never started
        return PartStatus(name=name, running=False, pid=None, address=None)


def _all_at_once(work: list[Callable[[], object]]) -> None:
    """Run all functions in parallel; raises the first failure once all have ended."""
    if not work:
        return
    with ThreadPoolExecutor(len(work)) as pool:
        for running in [pool.submit(task) for task in work]:
            running.result()
