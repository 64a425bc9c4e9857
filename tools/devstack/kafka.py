"""A real Kafka broker without containers: one node, KRaft, from jars pinned by hash.

There is a single node, so every internal topic has one replica; log retention is off, because the demo and
the tests replay. Each start rewrites the settings; the node's id and its data stay.
"""

import base64
import os
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from app.errors import EnvironmentMissing
from app.jars import classpath
from app.java import java
from tools.devstack.broker_classes import classes
from tools.devstack.ports import LOOPBACK, answers, known_port, remembered_port
from tools.devstack.process import Daemon, DaemonServer
from tools.devstack.wait import wait_for

START_SECONDS = 60.0
ADMIN_SECONDS = 60.0

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Longer than a busy machine delays its heartbeats: once fenced, the only broker is unavailable, as no other can
    # lead. After a crash it waits until its former session has timed out.
    "broker.session.timeout.ms": "18000",
    "log.retention.ms": "-1",
    "auto.create.topics.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "4",
}
_PROTOCOLS = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
#: For short runs: a small heap, the serial collector, and no code compiled well, which costs more than it saves.
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SMALL = ("-Xms256m", "-Xmx1g", *SHORT_LIVED)
#: What `kafka-server-start.sh` and `kafka-run-class.sh` set: the serial collector stops the broker for up to 0.2 s.
AS_SHIPPED = (
    "-Xms1g",
    "-Xmx1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
_LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


@dataclass(frozen=True)
class Kafka(DaemonServer):
    """A broker that keeps its data in `data_dir`."""

    data_dir: Path
    port: int | None = None  #: None: a free port is chosen, then kept in data_dir
    properties: Mapping[str, str] = field(default_factory=dict)  #: override SETTINGS
    #: additional to the plaintext one: name -> protocol (SSL, SASL_SSL); `properties` name the certificates
    listeners: Mapping[str, str] = field(default_factory=dict)
    java_options: Sequence[str] = SMALL
    archived: bool = True  #: starts from the archive of its classes

    @property
    def daemon(self) -> Daemon:
        return Daemon(name="Kafka", pid_file=self.data_dir / "pid", log_file=self.data_dir / "kafka.log")

    @property
    def bootstrap(self) -> str:
        port = self.port or known_port(self.data_dir / "port")
        if port is None:
            raise EnvironmentMissing("this Kafka has never been started", hint="./run stack up")
        return f"{LOOPBACK}:{port}"

    def at(self, listener: str) -> str:
        """Bootstrap address of one of `listeners`."""
        return f"{LOOPBACK}:{known_port(self._port_file(listener))}"

    def launch(self) -> None:
        if self.daemon.process():
            return
        self.data_dir.mkdir(parents=True, exist_ok=True)
        settings_file = self._write_settings()
        path = classpath("kafka")
        shared = classes(path, _rehearse) if self.archived else []
        program = [str(java()), *self.java_options, *shared, _LOGGING, "-cp", path]
        if not (self.data_dir / "log" / "meta.properties").exists():
            self._format(program, settings_file)
        self.daemon.start([*program, "kafka.Kafka", str(settings_file)], os.environ)

    def wait_ready(self) -> None:
        wait_for(self._is_ready, reason="Kafka to serve", seconds=START_SECONDS, hint=f"read {self.daemon.log_file}")

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic; an existing one stays unchanged. `config` has underscores for the dots of setting names."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        admin = self._admin()  # must stay referenced until the future is done
        (made,) = admin.create_topics([topic], operation_timeout=ADMIN_SECONDS).values()
        try:
            made.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        wait_for(lambda: self.has_topic(name), reason=f"topic {name}", seconds=ADMIN_SECONDS)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        admin = self._admin()  # must stay referenced until the future is done
        (gone,) = admin.delete_topics([name], operation_timeout=ADMIN_SECONDS).values()
        gone.result()
        wait_for(lambda: not self.has_topic(name), reason=f"the end of topic {name}", seconds=ADMIN_SECONDS)

    def has_topic(self, name: str) -> bool:
        return name in self._admin().list_topics(timeout=ADMIN_SECONDS).topics

    def _port_file(self, listener: str) -> Path:
        return self.data_dir / f"{listener.lower()}-port"

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def _is_ready(self) -> bool:
        self.daemon.must_live()
        if not answers(int(self.bootstrap.rpartition(":")[2])):
            return False
        try:
            return bool(self._admin().list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _write_settings(self) -> Path:
        port = self.port or remembered_port(self.data_dir / "port")
        controller = f"{LOOPBACK}:{remembered_port(self.data_dir / 'controller-port')}"
        own = [f"{name}://{LOOPBACK}:{remembered_port(self._port_file(name))}" for name in self.listeners]
        served, more = [f"PLAINTEXT://{LOOPBACK}:{port}", *own], [f"{n}:{p}" for n, p in self.listeners.items()]
        settings = SETTINGS | {
            "controller.quorum.voters": f"1@{controller}",
            "listeners": ",".join([*served, f"CONTROLLER://{controller}"]),
            "advertised.listeners": ",".join(served),
            "listener.security.protocol.map": ",".join([_PROTOCOLS, *more]),
            "log.dirs": str(self.data_dir / "log"),
        }
        file = self.data_dir / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in {**settings, **self.properties}.items()))
        return file

    def _format(self, program: list[str], settings_file: Path) -> None:
        """Format the log directory with a new cluster id (once for each data directory)."""
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = [*program, "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        command = [*tool, f"--cluster-id={cluster_id}", "--config", str(settings_file)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            words = f"Kafka could not prepare {self.data_dir}:\n{done.stderr}"
            raise EnvironmentMissing(words, hint="./run stack down --wipe")


def _rehearse(options: Sequence[str]) -> None:
    """Start a broker with these Java options, and stop it."""
    with tempfile.TemporaryDirectory(prefix="surelane-broker-") as folder:
        broker = Kafka(Path(folder), java_options=(*SMALL, *options), archived=False)
        try:
            broker.start()
            broker.create_topic("rehearsal")
        finally:
            broker.stop()
