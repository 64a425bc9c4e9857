"""A real Kafka Connect worker with the Debezium Postgres plugin, from jars pinned by hash."""

import os
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.cache import cache_dir, locked
from app.errors import EnvironmentMissing
from app.jars import SetName, artifacts, classpath, sha256_of
from app.java import java
from tools.devstack.http import request
from tools.devstack.kafka import SHORT_LIVED, Kafka
from tools.devstack.ports import LOOPBACK, known_port, remembered_port
from tools.devstack.process import Daemon, DaemonServer
from tools.devstack.wait import wait_for

START_SECONDS = 90.0
REGISTER_SECONDS = 60.0

SETTINGS = {
    "group.id": "surelane-connect",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "config.storage.topic": "connect.configs",
    "config.storage.replication.factor": "1",
    "offset.storage.topic": "connect.offsets",
    "offset.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    # Bounds how much of the source's WAL is sent again after a crash.
    "offset.flush.interval.ms": "1000",
    "status.storage.topic": "connect.status",
    "status.storage.replication.factor": "1",
    "status.storage.partitions": "1",
    "plugin.discovery": "service_load",
    "scheduled.rebalance.max.delay.ms": "0",
}
JAVA_OPTIONS = (
    "-Xms128m",
    "-Xmx1g",
    *SHORT_LIVED,
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.io.debezium.connector.postgresql=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)


@dataclass(frozen=True)
class Connect(DaemonServer):
    """One worker (ConnectDistributed) with its files in `data_dir`; its persistent state is in Kafka."""

    data_dir: Path
    kafka: Kafka  #: the broker it connects to; must start before it or at the same time
    port: int | None = None  #: None: a free port is chosen, then kept in data_dir
    properties: Mapping[str, str] = field(default_factory=dict)  #: override SETTINGS

    @property
    def daemon(self) -> Daemon:
        return Daemon(name="Kafka Connect", pid_file=self.data_dir / "pid", log_file=self.data_dir / "connect.log")

    @property
    def url(self) -> str:
        port = self.port or known_port(self.data_dir / "port")
        if port is None:
            raise EnvironmentMissing("this Kafka Connect has never been started", hint="./run stack up")
        return f"http://{LOOPBACK}:{port}"

    def launch(self) -> None:
        if self.daemon.process():
            return
        self.data_dir.mkdir(parents=True, exist_ok=True)
        settings_file = self._write_settings()
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        command = [str(java()), *JAVA_OPTIONS, "-cp", classpath("connect"), main, str(settings_file)]
        self.daemon.start(command, os.environ)

    def wait_ready(self) -> None:
        hint = f"read {self.daemon.log_file}"
        wait_for(self._is_ready, reason="Kafka Connect to serve", seconds=START_SECONDS, hint=hint)

    def register(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector, or update it to `config`, and wait until it and its task run.

        A connector that runs with this configuration is left unchanged; a failed one is restarted.
        """
        wait_for(lambda: self._put(name, config), reason=f"connector {name} to be taken", seconds=REGISTER_SECONDS)
        if self._failure(name):
            self.restart_connector(name)
        wait_for(lambda: self.is_running(name), reason=f"connector {name} to run", seconds=REGISTER_SECONDS)

    def delete(self, name: str) -> None:
        """Delete the connector (its offsets stay in Kafka)."""
        address = f"{self.url}/connectors/{name}"
        request("DELETE", address)
        gone = f"the end of connector {name}"
        wait_for(lambda: request("GET", address).status == 404, reason=gone, seconds=REGISTER_SECONDS)

    def restart_connector(self, name: str) -> None:
        """Restart the connector and its tasks, failed or not."""
        request("POST", f"{self.url}/connectors/{name}/restart?includeTasks=true&onlyFailed=false")
        wait_for(lambda: self.is_running(name), reason=f"connector {name} to run", seconds=REGISTER_SECONDS)

    def is_running(self, name: str) -> bool:
        """Whether the connector and all of its tasks run; raises EnvironmentMissing with the trace of a failed one."""
        if failure := self._failure(name):
            raise EnvironmentMissing(f"connector {name} failed: {failure}", hint=f"read {self.daemon.log_file}")
        states = self._states(name)
        return len(states) > 1 and all(state.get("state") == "RUNNING" for state in states)

    def _failure(self, name: str) -> str | None:
        """The trace of the connector or of its first failed task."""
        return next((str(state.get("trace")) for state in self._states(name) if state.get("state") == "FAILED"), None)

    def _states(self, name: str) -> list[dict[str, object]]:
        """The connector's state, then those of its tasks; empty while the worker does not know the connector."""
        answer = request("GET", f"{self.url}/connectors/{name}/status")
        if not answer.ok:
            return []
        parts = [answer.body.get("connector"), *_list(answer.body.get("tasks"))]
        return [part for part in parts if isinstance(part, dict)]

    def _put(self, name: str, config: Mapping[str, str]) -> bool:
        """Returns False when the caller should retry, for example while the worker joins its group."""
        address = f"{self.url}/connectors/{name}/config"
        if request("GET", address).body == {"name": name, **config}:
            return True
        answer = request("PUT", address, dict(config))
        if answer.status in (400, 422):
            raise EnvironmentMissing(f"connector {name} was refused: {answer.body.get('message')}")
        return answer.ok

    def _is_ready(self) -> bool:
        self.daemon.must_live()
        return request("GET", f"{self.url}/connectors").ok

    def _write_settings(self) -> Path:
        port = self.port or remembered_port(self.data_dir / "port")
        settings = SETTINGS | {
            "bootstrap.servers": self.kafka.bootstrap,
            "listeners": f"http://{LOOPBACK}:{port}",
            "plugin.path": str(plugin_dir()),
        }
        file = self.data_dir / "worker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in {**settings, **self.properties}.items()))
        return file


def plugin_dir(set_name: SetName = "connect") -> Path:
    """The folder with the unpacked Debezium plugin of a jar set; fetches and unpacks it once."""
    (archive,) = (path for path in artifacts(set_name) if path.suffix != ".jar")
    place = cache_dir() / "plugins" / sha256_of(archive)[:12]
    if not place.is_dir():
        with locked(place.parent / ".lock"):
            if not place.is_dir():
                _unpack(archive, place)
    return place


def _unpack(archive: Path, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".part-") as scratch:
        part = Path(scratch) / "whole"
        with tarfile.open(archive) as content:
            # Python 3.11.4 added the safe filter, Debian 12 has 3.11.2; the archive's hash is verified either way.
            content.extraction_filter = getattr(tarfile, "data_filter", None)
            content.extractall(part)
        part.rename(place)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
