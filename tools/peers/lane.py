"""The measured lane: the real command, as a child process with a fresh checkpoint, and the epochs of its log."""

import compileall
import datetime
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Self

import psutil

from tools.devstack.sections import merged
from tools.peers import child
from tools.peers.child import Child
from tools.testbed.machine import Cpu, below, peak_megabytes, single
from tools.testbed.servers import LEDGER_SCHEMA, Servers

LANE = "bench"
TWO_PHASE = "two-phase"
#: name of a mode -> configuration of the lane
MODES: Mapping[str, Mapping[str, object]] = {
    TWO_PHASE: {"delivery": "exactly-once", "commit": "two-phase"},
    "ledger": {"delivery": "exactly-once", "commit": "ledger"},
    "at-least-once": {"delivery": "at-least-once"},
}
#: configuration, log and checkpoint of the last lane; emptied before the next
FOLDER = Path("var/bench/lane")
TOP = Path(__file__).resolve().parents[2]
#: the processes of a lane, each a child of the one before
PARTS = ("supervisor", "driver", "jvm")
RUNNING = f"select true from {LEDGER_SCHEMA}.lane_state where state = 'running'"
#: the offset after the last visible message: a change becomes visible with its epoch's ledger row
END = f"""
    select (end_position -> %s ->> '0')::bigint from {LEDGER_SCHEMA}.ledger order by generation desc, epoch desc limit 1
"""


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One epoch line of the log."""

    number: int
    #: when it was begun and when it was visible, seconds since 1970
    began: float
    at: float
    messages: int
    #: offset after its last message, of a lane with one topic of one partition
    end: int
    #: milliseconds by step
    steps: Mapping[str, float]
    #: milliseconds by activity of the stage process, a part of `stage` where nothing was staged ahead
    staging: Mapping[str, float]

    @classmethod
    def parse(cls, line: str) -> Self | None:
        """Parse a line of the log; None unless it is an `epoch` event."""
        if not line.startswith("{") or (event := json.loads(line)).get("event") != "epoch":
            return None
        ends = [offset for partitions in event.get("end", {}).values() for offset in partitions.values()]
        return cls(
            number=event["epoch"],
            began=seconds_of(event["began"]),
            at=seconds_of(event["timestamp"]),
            messages=event.get("consumed", 0),
            end=max(ends, default=0),
            steps=event["ms"],
            staging=event.get("stage_ms", {}),
        )


def seconds_of(text: str) -> float:
    """Of a time in ISO format, since 1970."""
    return datetime.datetime.fromisoformat(text).timestamp()


def mean_steps(epochs: Sequence[Epoch]) -> dict[str, float]:
    """Mean milliseconds of an epoch by step; `between` is the time outside of all steps, mostly Spark's logs."""
    if len(epochs) < 2:
        return {}
    names = dict.fromkeys(name for epoch in epochs for name in epoch.steps)
    means = {name: fmean(epoch.steps.get(name, 0.0) for epoch in epochs) for name in names}
    period = (epochs[-1].at - epochs[0].at) * 1000 / (len(epochs) - 1)
    means["between"] = period - sum(means.values())
    return {name: round(milliseconds, 1) for name, milliseconds in means.items()}


@dataclass(kw_only=True)
class Lane(Child):
    #: part -> pid of the parts found so far
    _parts: dict[str, int] = field(default_factory=dict)

    def cpu(self) -> Mapping[str, Cpu]:
        """CPU seconds of supervisor, driver (the worker) and its JVM, and of the Python processes of Spark's tasks."""
        own = {part: single(self.pids().get(part, 0)) for part in PARTS}
        tasks = below(self.pids().get("driver", 0)) - own.get("jvm", 0.0)
        return {**own, "tasks": max(0.0, tasks)}

    def peaks(self) -> Mapping[str, int]:
        """Of each part, and of the largest process of Spark's tasks: the stage process has an epoch's rows."""
        pids = self.pids()
        below_driver = {child.pid for child in psutil.Process(pids["driver"]).children(recursive=True)}
        tasks = max(map(peak_megabytes, below_driver - {pids["jvm"]}), default=0.0)
        return {**{part: round(peak_megabytes(pids[part])) for part in PARTS}, "tasks": round(tasks)}

    def kill(self) -> None:
        """Send SIGKILL to the process group, as a power failure would end all processes at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def pids(self) -> Mapping[str, int]:
        """Pids of the parts found so far."""
        if len(self._parts) < len(PARTS) and self.process.poll() is None:
            supervisor = psutil.Process(self.process.pid)
            drivers = supervisor.children()
            jvms = [child for driver in drivers for child in driver.children() if child.name() == "java"]
            found = zip(PARTS, ([supervisor], drivers, jvms), strict=True)
            self._parts.update({part: processes[0].pid for part, processes in found if processes})
        return self._parts

    def epochs(self) -> list[Epoch]:
        """Epochs that the log has so far."""
        return [epoch for line in self.log.read_text().splitlines() if (epoch := Epoch.parse(line))]


def compile_modules() -> None:
    """Compile Surelane's modules, as an installation has them; else the first start does it."""
    compileall.compile_dir(TOP / "app", quiet=1)


@contextmanager
def running(
    servers: Servers,
    topic: str,
    mode: str = TWO_PHASE,
    *,
    settings: Mapping[str, object] | None = None,
    again: bool = False,
    python_path: Path | None = None,
    arguments: Sequence[str] = (),
) -> Iterator[Lane]:
    """Start the lane on `topic`; at the end of the block, stop it if it still runs.

    It starts from the topic's beginning, and `settings` override its configuration, as SURELANE_... variables do; with
    `again` it uses the configuration, checkpoint and log of the previous lane. `python_path`: a folder that precedes
    PYTHONPATH; `arguments`: more of `surelane run`.
    """
    folder = FOLDER.resolve()
    config = folder / "surelane.yaml"
    if not again:
        known = {
            "lane": LANE,
            "source": {"bootstrap_servers": servers.bootstrap, "topics": [topic]},
            "target": {"url": servers.url, "schema": LEDGER_SCHEMA},
            "checkpoint": str(checkpoint()),
            "metrics": {"port": 0},
            **MODES[mode],
        }
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        config.write_text(json.dumps(merged(known, settings or {}), indent=1))
    command = [sys.executable, "-m", "app.cli", "run", "--config", str(config), *arguments]
    path = os.pathsep.join(map(str, filter(None, (python_path, os.environ.get("PYTHONPATH"), TOP))))
    with child.running(command, folder, Lane, environment={"PYTHONPATH": path}) as lane:
        yield lane


def checkpoint() -> Path:
    """Checkpoint folder of the last lane."""
    return FOLDER.resolve() / "checkpoint"
