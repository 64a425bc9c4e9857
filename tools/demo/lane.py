"""The lane under test: a real `surelane run` in its own process group, started and killed from outside."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

import app
from app.config.loader import load
from app.config.settings import Settings
from tools.demo.failure import DemoFailed
from tools.devstack import Endpoints
from tools.devstack.process import Daemon
from tools.devstack.sections import merged
from tools.devstack.wait import wait_for

LANE = "demo"
KILL_SECONDS = 10.0
#: two cores are enough; the servers share the machine
SPARK_MASTER = "local[2]"


@dataclass(frozen=True)
class DemoLane:
    """The lane's files are in `folder`; its pid file finds a lane that an interrupted demo left running."""

    folder: Path
    #: run this query of the configuration, instead of the lane
    query: str | None = None

    @property
    def config(self) -> Path:
        return self.folder / "surelane.yaml"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def daemon(self) -> Daemon:
        name = self.query or "lane"
        pid = "pid" if self.query is None else f"{self.query}.pid"
        return Daemon(name="surelane run", pid_file=self.folder / pid, log_file=self.folder / f"{name}.log")

    def configure(self, endpoints: Endpoints, more: Mapping[str, object] | None = None) -> Settings:
        """Write the configuration file; returns the settings as the lane reads them. `more`: further keys."""
        self.folder.mkdir(parents=True, exist_ok=True)
        raw = merged(_configuration(endpoints, self.checkpoint), more or {})
        self.config.write_text(yaml.safe_dump(raw, sort_keys=False))
        return load(self.config)

    def migrate(self) -> None:
        """Run `surelane migrate`; raises DemoFailed if it fails."""
        command = [*_surelane(), "migrate", "--config", str(self.config)]
        done = subprocess.run(
            command, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise DemoFailed(f"surelane migrate ended with status {done.returncode}:\n{done.stderr}")

    def start(self) -> None:
        """Start `surelane run`; returns at once."""
        query = [] if self.query is None else ["--query", self.query]
        self.daemon.start([*_surelane(), "run", "--config", str(self.config), *query], _environment())

    def kill(self) -> None:
        """Send SIGKILL to the process group, Python and Java, and wait for its end; does nothing if it has ended."""
        process = self.daemon.process()
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        wait_for(lambda: not _members(process.pid), reason="the end of the lane", seconds=KILL_SECONDS)
        self.daemon.kill()  # the process is dead: remove the pid file

    def stop(self) -> None:
        """Send SIGTERM and wait for the end; after a timeout, SIGKILL."""
        self.daemon.stop()

    def must_live(self) -> None:
        """Raise DemoFailed with the end of the log if the lane has ended."""
        if self.daemon.pid is None:
            raise DemoFailed(f"the lane ended by itself:\n{self.daemon.log_tail()}")

    def log_size(self) -> int:
        """Bytes of the log."""
        return self.daemon.log_file.stat().st_size

    def events(self, since: int = 0) -> Iterator[Mapping[str, Any]]:
        """Events of the log from byte `since` on; lines that are not JSON objects are skipped."""
        with self.daemon.log_file.open("rb") as log:
            log.seek(since)
            for line in log.read().splitlines():
                with suppress(ValueError):
                    event = json.loads(line)
                    if isinstance(event, dict):
                        yield event


def _configuration(endpoints: Endpoints, checkpoint: Path) -> dict[str, object]:
    return {
        "lane": LANE,
        "source": {"bootstrap_servers": endpoints.kafka, "topics": [endpoints.topic]},
        "target": {"url": endpoints.target_url, "owner_role": endpoints.target_role},
        "delivery": "exactly-once",
        "commit": "two-phase",
        "checkpoint": str(checkpoint),
        "spark": {"master": SPARK_MASTER, "conf": {"spark.sql.warehouse.dir": str(checkpoint.parent / "warehouse")}},
        "metrics": {"port": None},
    }


def _surelane() -> list[str]:
    return [sys.executable, "-m", "app.cli"]


def _environment() -> dict[str, str]:
    """This process's environment, without variables that override the configuration; PYTHONPATH finds this code."""
    keys = {f"SURELANE_{name}".upper() for name in Settings.model_fields}
    kept = {name: value for name, value in os.environ.items() if name.upper().partition("__")[0] not in keys}
    here = str(Path(app.__file__).resolve().parent.parent)
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))}


def _members(group: int) -> list[psutil.Process]:
    """Processes of a process group, without zombies."""
    found = []
    for process in psutil.process_iter(["status"]):
        with suppress(ProcessLookupError):
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
