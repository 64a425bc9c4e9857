"""Samples of a running lane: memory, threads, files, its checkpoint, its tables, its lag; and whether they grow.

Growth is judged by the median slope between all pairs of samples of the second half (Theil and Sen). The first half is
for one-time growth: compiled code, pools and caches.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from app.lane.epoch_ledger import PRUNE_EVERY_EPOCHS
from app.ledger.store import KEEP_EPOCHS
from tools.bench.page import Goal
from tools.bench.trial import Trial
from tools.peers.child import SystemFailed
from tools.peers.lane import PARTS
from tools.testbed.servers import LEDGER_SCHEMA

_MEGABYTE = 1 << 20
_GUARD = " + ".join(
    f"pg_total_relation_size('{LEDGER_SCHEMA}.{name}')" for name in ("attempt", "suspect", "quarantine")
)
_SIZES = f"""
    select (select count(*) from {LEDGER_SCHEMA}.ledger), pg_total_relation_size('{LEDGER_SCHEMA}.ledger'), {_GUARD},
           pg_total_relation_size(%s)
"""
#: megabytes an hour: above the noise of an allocator, below a leak (1 kB an epoch would be 20)
GROWTH_LIMITS = {"supervisor": 2.0, "driver": 20.0, "jvm": 40.0}
#: growth an hour
THREADS_LIMIT, FILES_LIMIT = 1.0, 2.0
#: Spark keeps a hundred epochs, three files each; and of a query's state as many, for each of two partitions
CHECKPOINT_FILES_LIMIT, STATE_FILES_LIMIT = 1000, 3000
#: lag in seconds of messages, at any time of the second half
LAG_LIMIT_SECONDS = 10.0
#: a shorter second half is not judged
LEAST_SECONDS = 600.0
#: above it samples are thinned out: the number of pairs grows with the square
_MOST_SAMPLES = 1000
#: resource usage at one moment
Sample = Mapping[str, Any]


def take(one: Trial, table: str, checkpoint: Path, begin: float, lag_messages: int) -> Sample:
    """Take a sample now; raises SystemFailed if a process is gone. `begin`: of the load, seconds since 1970;
    `lag_messages`: most since the previous sample. Memory is the proportional set of each process, in which shared
    pages are divided by their users."""
    pids = one.lane.pids()
    try:
        processes = {part: psutil.Process(pids[part]) for part in PARTS}
        of_processes = {
            "pss": {part: _megabytes(process.memory_full_info().pss) for part, process in processes.items()},
            "threads": {part: process.num_threads() for part, process in processes.items()},
            "files": {part: process.num_fds() for part, process in processes.items()},
        }
    except (KeyError, psutil.NoSuchProcess) as gone:
        raise SystemFailed(f"a process of the lane is gone ({gone}):\n{one.held.tail()}") from None
    one.cursor.execute(_SIZES, [table])
    ((rows, *sizes),) = one.cursor.fetchall()
    names = ("ledger_megabytes", "guard_megabytes", "table_megabytes")
    return {
        "seconds": round(time.time() - begin, 1),
        **of_processes,
        "checkpoint_files": sum(path.is_file() for path in checkpoint.rglob("*")),
        "ledger_rows": rows,
        **dict(zip(names, map(_megabytes, sizes), strict=True)),
        "lag_messages": lag_messages,
    }


def _megabytes(size: int) -> float:
    return round(size / _MEGABYTE, 2)


def slope(at: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Median slope over all pairs, in units of `values` per unit of `at`. Needs at least two samples."""
    step = len(at) // _MOST_SAMPLES + 1
    at, values = at[::step], values[::step]
    first, second = np.triu_indices(len(at), 1)
    return float(np.median((values[second] - values[first]) / (at[second] - at[first])))


def second_half(samples: Sequence[Sample]) -> list[Sample]:
    """Samples of the second half of the time."""
    middle = (samples[0]["seconds"] + samples[-1]["seconds"]) / 2
    return [sample for sample in samples if sample["seconds"] >= middle]


def hourly(samples: Sequence[Sample], figure: Callable[[Sample], float]) -> float:
    """Growth of a figure an hour."""
    at = np.array([one["seconds"] for one in samples]) / 3600
    return slope(at, np.array([figure(one) for one in samples], np.float64))


def growth_goals(samples: Sequence[Sample], rate: int, *, has_state: bool = False) -> list[Goal]:
    """The goals for one run, with the figures of its samples. `has_state`: a query's."""
    later = second_half(samples) if samples else []
    long_enough = len(later) > 1 and later[-1]["seconds"] - later[0]["seconds"] >= LEAST_SECONDS

    def growth(what: str, unit: str, limit: float, figure: Callable[[Sample], float]) -> Goal:
        found = round(hourly(later, figure), 3) if long_enough else None
        return Goal(f"growth of {what}", limit, found, unit)

    def most(what: str, unit: str, limit: float, found: Sequence[float]) -> Goal:
        return Goal(what, limit, max(found, default=None), unit)

    files = STATE_FILES_LIMIT if has_state else CHECKPOINT_FILES_LIMIT
    rows = KEEP_EPOCHS + PRUNE_EVERY_EPOCHS
    return [
        *(
            growth(f"memory, {part}", "MB/h", limit, lambda one, part=part: one["pss"][part])
            for part, limit in GROWTH_LIMITS.items()
        ),
        growth("threads", "an hour", THREADS_LIMIT, lambda one: sum(one["threads"].values())),
        growth("open files", "an hour", FILES_LIMIT, lambda one: sum(one["files"].values())),
        most("files of the checkpoint", "files", files, [one["checkpoint_files"] for one in samples]),
        most("rows of the ledger", "rows", rows, [one["ledger_rows"] for one in samples]),
        most("lag at any time", "s of messages", LAG_LIMIT_SECONDS, [one["lag_messages"] / rate for one in later]),
    ]
