"""The lane that is measured: the real command, as a child process with a fresh checkpoint."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tools.bench.epochs import Epoch
from tools.bench.machine import Cpu, below, peak_megabytes, single
from tools.bench.servers import LEDGER_SCHEMA, Servers

LANE = "bench"
#: what the lane under test is called in results -> its configuration
MODES: Mapping[str, Mapping[str, object]] = {
    "at-least-once": {"delivery": "at-least-once"},
    "two-phase": {"delivery": "exactly-once", "commit": "two-phase"},
    "ledger": {"delivery": "exactly-once", "commit": "ledger"},
    #: what the guard costs, beside the mode of the same name
    "two-phase-unguarded": {"delivery": "exactly-once", "commit": "two-phase", "guard": {"enabled": False}},
}
#: configuration, log and checkpoint of the last lane; emptied before the next
FOLDER = Path("var/bench/lane")
TOP = Path(__file__).resolve().parents[2]
STOP_SECONDS = 60.0
LOG_TAIL_LINES = 15
#: the processes of a lane, each a child of the one before
PARTS = ("supervisor", "driver", "jvm")


class LaneFailed(Exception):
    """The lane ended by itself, or did not do what it was to do."""


@dataclass
class Lane:
    """One running child process."""

    process: subprocess.Popen[bytes]
    log: Path
    #: seconds since 1970, just before the process was made
    started_at: float
    #: part -> pid; parts that have not been seen yet are missing
    _parts: dict[str, int] = field(default_factory=dict)

    def cpu(self) -> Mapping[str, Cpu]:
        """What supervisor, driver (the worker) and its JVM have used, and the Python processes of Spark's tasks."""
        own = {part: single(self._pids().get(part, 0)) for part in PARTS}
        tasks = below(self._pids().get("driver", 0)) - own.get("jvm", 0.0)
        return {**own, "tasks": max(0.0, tasks)}

    def peaks(self) -> dict[str, int]:
        """Megabytes at most so far."""
        return {part: round(peak_megabytes(self._pids().get(part, 0))) for part in PARTS}

    def must_live(self) -> None:
        """Raise with the end of the log if the process has ended."""
        if self.process.poll() is not None:
            raise LaneFailed(f"the lane ended with status {self.process.returncode}:\n{self.tail()}")

    def stop(self) -> int:
        """End it in good order if it still runs; gives its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.wait()

    def kill(self) -> None:
        """SIGKILL to all of its processes at once, as a machine that loses its power would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def pids(self) -> Mapping[str, int]:
        """Of its parts, as far as they have been seen."""
        return dict(self._pids())

    def wait(self) -> int:
        """Its exit status; killed when it does not end."""
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            for process in [*psutil.Process(self.process.pid).children(recursive=True), self.process]:
                process.kill()
            return self.process.wait()

    def epochs(self) -> list[Epoch]:
        """What it has logged of its epochs so far."""
        return [epoch for line in self.log.read_text().splitlines() if (epoch := Epoch.parse(line))]

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text().splitlines()[-LOG_TAIL_LINES:])

    def _pids(self) -> Mapping[str, int]:
        if len(self._parts) < len(PARTS) and self.process.poll() is None:
            supervisor = psutil.Process(self.process.pid)
            drivers = supervisor.children()
            jvms = [child for driver in drivers for child in driver.children() if child.name() == "java"]
            found = zip(PARTS, ([supervisor], drivers, jvms), strict=True)
            self._parts.update({part: processes[0].pid for part, processes in found if processes})
        return self._parts


@contextmanager
def running(
    servers: Servers,
    mode: str,
    topic: str,
    *,
    until_caught_up: bool,
    settings: Mapping[str, object] | None = None,
    again: bool = False,
    python_path: Path | None = None,
) -> Iterator[Lane]:
    """Start the lane on `topic`, stopped at the end if it has not ended by itself.

    From the topic's beginning, with `settings` over its own; or `again`: with the configuration, checkpoint and log
    that the last one left. It has a process group of its own, so that it can be killed as a whole. `python_path`: a
    folder that its Python looks into first.
    """
    folder = FOLDER.resolve()
    config, log = folder / "surelane.yaml", folder / "log.jsonl"
    if not again:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        config.write_text(json.dumps({**_config(servers, mode, topic), **(settings or {})}, indent=1))
    command = [sys.executable, "-m", "app.cli", "run", "--config", str(config)]
    if until_caught_up:
        command.append("--until-caught-up")
    path = os.pathsep.join(map(str, filter(None, (python_path, os.environ.get("PYTHONPATH"), TOP))))
    environment = {**os.environ, "PYTHONPATH": path}
    with log.open("ab") as out:
        started_at = time.time()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    lane = Lane(process, log, started_at)
    try:
        yield lane
    finally:
        lane.stop()


def _config(servers: Servers, mode: str, topic: str) -> dict[str, object]:
    """JSON is YAML. What is not said here is as the defaults have it; SURELANE_... variables go on top."""
    return {
        "lane": LANE,
        "source": {"bootstrap_servers": servers.bootstrap, "topics": [topic]},
        "target": {"url": servers.url, "schema": LEDGER_SCHEMA},
        "checkpoint": str(checkpoint()),
        "metrics": {"port": 0},
        **MODES[mode],
    }


def checkpoint() -> Path:
    """Of the last lane."""
    return FOLDER.resolve() / "checkpoint"
