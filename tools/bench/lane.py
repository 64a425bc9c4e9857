"""The measured lane: the real command, as a child process with a fresh checkpoint."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tools.bench.epochs import Epoch
from tools.bench.machine import Cpu, below, peak_megabytes, single
from tools.bench.servers import LEDGER_SCHEMA, Servers

LANE = "bench"
#: name of a mode in results -> configuration of the lane
MODES: Mapping[str, Mapping[str, object]] = {
    "at-least-once": {"delivery": "at-least-once"},
    "two-phase": {"delivery": "exactly-once", "commit": "two-phase"},
    "ledger": {"delivery": "exactly-once", "commit": "ledger"},
    #: to measure the cost of the guard, compared with two-phase
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
    """The lane ended by itself, or missed what it was expected to do."""


@dataclass
class Lane:
    process: subprocess.Popen[bytes]
    log: Path
    #: seconds since 1970, just before the process was started
    started_at: float
    #: part -> pid of the parts found so far
    _parts: dict[str, int] = field(default_factory=dict)

    def cpu(self) -> Mapping[str, Cpu]:
        """CPU seconds of supervisor, driver (the worker) and its JVM, and of the Python processes of Spark's tasks."""
        own = {part: single(self._pids().get(part, 0)) for part in PARTS}
        tasks = below(self._pids().get("driver", 0)) - own.get("jvm", 0.0)
        return {**own, "tasks": max(0.0, tasks)}

    def peaks(self) -> dict[str, int]:
        """Peak memory of each part so far, in megabytes."""
        return {part: round(peak_megabytes(self._pids().get(part, 0))) for part in PARTS}

    def must_live(self) -> None:
        """Raise LaneFailed with the end of the log if the process has ended."""
        if self.process.poll() is not None:
            raise LaneFailed(f"the lane ended with status {self.process.returncode}:\n{self.tail()}")

    def stop(self) -> int:
        """Send SIGTERM if the lane still runs; returns its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.wait()

    def kill(self) -> None:
        """Send SIGKILL to the process group, as a power failure would end all processes at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def pids(self) -> Mapping[str, int]:
        """Pids of the parts found so far."""
        return dict(self._pids())

    def wait(self) -> int:
        """Wait for the end, with SIGKILL after STOP_SECONDS; returns the exit status."""
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            for process in [*psutil.Process(self.process.pid).children(recursive=True), self.process]:
                process.kill()
            return self.process.wait()

    def epochs(self) -> list[Epoch]:
        """Epochs that the log has so far."""
        return [epoch for line in self.log.read_text().splitlines() if (epoch := Epoch.parse(line))]

    def tail(self) -> str:
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
    arguments: Sequence[str] = (),
) -> Iterator[Lane]:
    """Start the lane on `topic`; at the end of the block, stop it if it still runs.

    It starts from the topic's beginning, and `settings` override its configuration; with `again` it uses the
    configuration, checkpoint and log of the previous lane. It runs in its own process group, so that `kill` reaches all
    of its processes. `python_path`: a folder that precedes PYTHONPATH; `arguments`: more of `surelane run`.
    """
    folder = FOLDER.resolve()
    config, log = folder / "surelane.yaml", folder / "log.jsonl"
    if not again:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        config.write_text(json.dumps({**_config(servers, mode, topic), **(settings or {})}, indent=1))
    command = [sys.executable, "-m", "app.cli", "run", "--config", str(config), *arguments]
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
    """The configuration; other settings have their defaults, and SURELANE_... variables override both."""
    return {
        "lane": LANE,
        "source": {"bootstrap_servers": servers.bootstrap, "topics": [topic]},
        "target": {"url": servers.url, "schema": LEDGER_SCHEMA},
        "checkpoint": str(checkpoint()),
        "metrics": {"port": 0},
        **MODES[mode],
    }


def checkpoint() -> Path:
    """Checkpoint folder of the last lane."""
    return FOLDER.resolve() / "checkpoint"
