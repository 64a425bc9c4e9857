"""Where the milliseconds of a lane's latency go: each epoch's steps, by its log and its checkpoint's files.

    sent ... offsets/N ...... settle, guard, stage, prepare, apply, identify, pre-commit ... commits/N ...... visible
     |-gathered-|-- plan --|                                                     |-entry-|-- commit, finish --|

A lane that commits in one phase goes ahead of the checkpoint, and is visible after its pre-commit: `gathered` lasts
until the epoch begins, and there is no `plan`, `entry` or `commit`. Steps, their begin and visibility are in the
`epoch` lines of the log; the files' times are those of their last change. Spark deletes old files, so they are read
each second. Which files are synced to disk, and how long that takes, says strace, where it is installed.
"""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import numpy as np
import psutil
from numpy.typing import NDArray

from tools.bench.trial import Trial
from tools.peers import lane
from tools.peers.lane import TWO_PHASE, Epoch

GATHERED, PLAN, ENTRY, COMMIT, FINISH = "gathered", "plan", "entry", "commit", "finish"
#: precedes the names of a stage process' activities
STAGE = "of stage: "
_EVERY_SECONDS = 1.0
PROGRAM = "strace"
#: fsync(12</path/to/file>) = 0 <0.000123>
_LINE = re.compile(r"f(?:data)?sync\(\d+<(?P<file>[^>]*)>.*<(?P<seconds>[\d.]+)>$")
#: what a path is called, the first that it has
_NAMES = {
    "/pg_wal/": "Postgres: its log",
    "/pg_twophase/": "Postgres: prepared transactions",
    "/cluster/": "Postgres: data files",
    "/offsets": "Spark: offsets/N",
    "/commits": "Spark: commits/N",
    "/archive": "the archive",
}


class Budget:
    """Follows a trial of a lane; `begin` and `end` are the limits of what counts. Of another system it is empty."""

    def __init__(self, one: Trial) -> None:
        self._one = one
        #: times of the checkpoint's files by folder and epoch, seconds since 1970
        self._files: dict[str, dict[int, float]] = {"offsets": {}, "commits": {}}
        self._next = 0.0
        self._from, self._to, self._syncs = np.inf, np.inf, 0
        self._traced: Mapping[str, Mapping[str, float]] = {}

    def begin(self) -> None:
        self._from, self._syncs = time.time(), self._one.servers.wal_syncs()

    def end(self) -> None:
        self._read()
        self._to, self._syncs = time.time(), self._one.servers.wal_syncs() - self._syncs

    def look(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_SECONDS
            self._read()

    def since_entry(self, seen: float) -> float | None:
        """Milliseconds from the newest entry `commits/N` to `seen`, when the last message became visible, of a lane
        with two phases: no epoch follows, whose begin would commit it."""
        if self._one.system.mode != TWO_PHASE:
            return None
        self._read()
        return round((seen - max(self._files["commits"].values())) * 1000, 1)

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Trace the syncs of the lane and of the server."""
        begin = time.time()
        with _followed([self._one.lane.process.pid, self._one.servers.stack.target.pid]) as found:
            yield
        epochs = [epoch for epoch in self._one.lane.epochs() if epoch.at >= begin]
        self._traced = counted(found, len(epochs)) if epochs else {}

    def fields(self, sent_at: NDArray[np.float64]) -> dict[str, object]:
        """Fields of a result. `sent_at`: of each message, seconds since 1970; their offsets begin at 1."""
        known = self._one.lane.epochs() if self._one.system.is_lane else []
        epochs = [epoch for epoch in known if self._from <= epoch.at <= self._to]
        if not epochs:
            return {}
        return {
            "epochs": len(epochs),
            "messages_an_epoch": round(sum(epoch.messages for epoch in epochs) / len(epochs), 1),
            "wal_syncs_an_epoch": round(self._syncs / len(epochs), 2),
            "syncs": self._traced,
            "budget_milliseconds": budget(epochs, self._files["offsets"], self._files["commits"], sent_at),
        }

    def _read(self) -> None:
        for name, times in self._files.items():
            for entry in lane.checkpoint().rglob(f"{name}/*"):
                if entry.name.isdecimal():
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        times.setdefault(int(entry.name), entry.stat().st_mtime_ns / 1e9)


def budget(
    epochs: Sequence[Epoch],
    offsets: Mapping[int, float],
    commits: Mapping[int, float],
    sent_at: NDArray[np.float64],
) -> dict[str, float]:
    """Median milliseconds by part, in order, over the epochs whose files were seen."""
    found: dict[str, list[float]] = {}
    for epoch in epochs:
        is_planned = COMMIT in epoch.steps
        begun = offsets.get(epoch.number) if is_planned else epoch.began
        entered = commits.get(epoch.number) if is_planned else epoch.at
        sent = sent_at[max(0, epoch.end - 1 - epoch.messages) : epoch.end - 1]
        if begun is None or entered is None or not len(sent):
            continue
        steps = {name: spent for name, spent in epoch.steps.items() if name != COMMIT}
        written = epoch.began + sum(steps.values()) / 1000
        done = min(entered, epoch.at)  # of a lane with one phase: visible before its entry
        committing = epoch.steps.get(COMMIT, 0.0)
        parts = {
            GATHERED: (begun - float(np.mean(sent))) * 1000,
            PLAN: (epoch.began - begun) * 1000,
            **steps,
            ENTRY: (done - written) * 1000,
            COMMIT: committing,
            FINISH: (epoch.at - done) * 1000 - committing,
            **{f"{STAGE}{name}": spent for name, spent in epoch.staging.items()},
        }
        for name, milliseconds in parts.items():
            found.setdefault(name, []).append(milliseconds)
    return {name: round(median(values), 1) for name, values in found.items()}


def can_trace() -> bool:
    return shutil.which(PROGRAM) is not None


@contextmanager
def _followed(pids: Sequence[int | None]) -> Iterator[list[tuple[str, float]]]:
    """Follow these processes and all below them; at the end of the block the list has each sync: name, milliseconds."""
    found: list[tuple[str, float]] = []
    roots = [psutil.Process(pid) for pid in pids if pid]
    members = [one.pid for root in roots for one in (root, *root.children(recursive=True))]
    with tempfile.NamedTemporaryFile("r") as out:
        follow = [word for pid in members for word in ("-p", str(pid))]
        options = ["-f", "-qq", "-y", "-T", "-e", "trace=fsync,fdatasync", "-o", out.name]
        with subprocess.Popen([PROGRAM, *options, *follow], stderr=subprocess.DEVNULL) as process:
            try:
                yield found
            finally:
                process.terminate()
        found += parsed(Path(out.name).read_text().splitlines())


def parsed(lines: Sequence[str]) -> list[tuple[str, float]]:
    matches = [match for line in lines if (match := _LINE.search(line))]
    return [(_name(match["file"]), float(match["seconds"]) * 1000) for match in matches]


def counted(syncs: Sequence[tuple[str, float]], epochs: int) -> dict[str, dict[str, float]]:
    """By name: how many an epoch, and their median milliseconds."""
    by_name: dict[str, list[float]] = {}
    for name, milliseconds in syncs:
        by_name.setdefault(name, []).append(milliseconds)
    return {
        name: {"an_epoch": round(len(taken) / epochs, 2), "milliseconds": round(median(taken), 2)}
        for name, taken in sorted(by_name.items())
    }


def _name(file: str) -> str:
    return next((name for part, name in _NAMES.items() if part in file), Path(file).name)
