"""The lane under test: a real `surelane run` in a process group of its own, started and killed from outside."""

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
from tools.devstack.wait import wait_for

LANE = "demo"
KILL_SECONDS = 10.0
#: enough for the demo; the servers share the machine
SPARK_MASTER = "local[2]"


@dataclass(frozen=True)
class DemoLane:
    """The lane's files are in `folder`; a lane that an interrupted demo left running is found there again."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "surelane.yaml"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def daemon(self) -> Daemon:
        return Daemon(name="surelane run", pid_file=self.folder / "pid", log_file=self.folder / "lane.log")

    def configure(self, endpoints: Endpoints) -> Settings:
        """Write the configuration; gives it as the lane will read it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config.write_text(yaml.safe_dump(_configuration(endpoints, self.checkpoint), sort_keys=False))
        return load(self.config)

    def migrate(self) -> None:
        """`surelane migrate`."""
        command = [*_surelane(), "migrate", "--config", str(self.config)]
        done = subprocess.run(
            command, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise DemoFailed(f"surelane migrate ended with status {done.returncode}:\n{done.stderr}")

    def start(self) -> None:
        """`surelane run`; returns at once."""
        self.daemon.start([*_surelane(), "run", "--config", str(self.config)], _environment())

    def kill(self) -> None:
        """SIGKILL to the lane's every process, Python and Java; does nothing when none is left."""
        process = self.daemon.process()
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        wait_for(lambda: not _members(process.pid), reason="the end of the lane", seconds=KILL_SECONDS)
        self.daemon.kill()  # it is dead: forget it

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        self.daemon.stop()

    def must_live(self) -> None:
        """Raise with its last words when it has ended by itself."""
        if self.daemon.pid is None:
            raise DemoFailed(f"the lane ended by itself:\n{self.daemon.log_tail()}")

    def log_size(self) -> int:
        """Where the log ends now."""
        return self.daemon.log_file.stat().st_size

    def events(self, since: int = 0) -> Iterator[Mapping[str, Any]]:
        """The log's events from that place on; lines that are not Surelane's are left out."""
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
    """This process's, without variables that would change the configuration, and with the way to this code."""
    keys = {f"SURELANE_{name}".upper() for name in Settings.model_fields}
    kept = {name: value for name, value in os.environ.items() if name.upper().partition("__")[0] not in keys}
    here = str(Path(app.__file__).resolve().parent.parent)
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))}


def _members(group: int) -> list[psutil.Process]:
    """Living processes of a process group."""
    found = []
    for process in psutil.process_iter(["status"]):
        with suppress(ProcessLookupError):
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
