"""Where the milliseconds of a lane's latency go: each epoch's steps, by its log and its checkpoint's files.

    sent ... offsets/N ...... settle, guard, stage, prepare, apply, identify, pre-commit ... commits/N ...... visible
     |-gathered-|-- plan --|                                                     |-entry-|-- commit, finish --|

A lane that commits in one phase goes ahead of the checkpoint, and is visible after its pre-commit: `gathered` lasts
until the epoch begins, and there is no `plan`, `entry` or `commit`. Steps, their begin and visibility are in the
`epoch` lines of the log; the files' times are those of their last change. Spark deletes old files, so they are read
each second.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from statistics import median

import numpy as np
from numpy.typing import NDArray

from tools.bench import lane, syncs
from tools.bench.lane import Epoch, Lane

GATHERED, PLAN, ENTRY, COMMIT, FINISH = "gathered", "plan", "entry", "commit", "finish"
#: precedes the names of a stage process' activities
STAGE = "of stage: "
_EVERY_SECONDS = 1.0


class Budget:
    """Follows a running lane; `begin` and `end` are the limits of what counts."""

    def __init__(self, held: Lane, wal_syncs: Callable[[], int]) -> None:
        """`wal_syncs`: how often the target has synced its log."""
        self._held, self._wal_syncs = held, wal_syncs
        #: times of the checkpoint's files by folder and epoch, seconds since 1970
        self._files: dict[str, dict[int, float]] = {"offsets": {}, "commits": {}}
        self._next = 0.0
        self._from, self._to, self._syncs = np.inf, np.inf, 0
        self._traced: Mapping[str, Mapping[str, float]] = {}

    def begin(self) -> None:
        self._from, self._syncs = time.time(), self._wal_syncs()

    def end(self) -> None:
        self._read()
        self._to, self._syncs = time.time(), self._wal_syncs() - self._syncs

    def look(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_SECONDS
            self._read()

    @contextmanager
    def traced(self, server: int | None) -> Iterator[None]:
        """Trace the syncs of the lane and of the server with this pid."""
        begin = time.time()
        with syncs.traced([self._held.process.pid, server]) as found:
            yield
        epochs = [epoch for epoch in self._held.epochs() if epoch.at >= begin]
        self._traced = syncs.counted(found, len(epochs)) if epochs else {}

    def fields(self, sent_at: NDArray[np.float64]) -> dict[str, object]:
        """Fields of a result. `sent_at`: of each message, seconds since 1970; their offsets begin at 1."""
        epochs = [epoch for epoch in self._held.epochs() if self._from <= epoch.at <= self._to]
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
