"""Judges growth by the median slope between all pairs of samples of the second half (Theil and Sen).

The first half is for one-time growth: compiled code, pools and caches.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from app.lane.epoch_ledger import PRUNE_EVERY_EPOCHS
from app.ledger.store import KEEP_EPOCHS
from tools.bench.goals import Goal
from tools.bench.lane import PARTS
from tools.bench.samples import Sample

#: megabytes an hour: above the noise of an allocator, below a leak (1 kB an epoch would be 20)
GROWTH_LIMITS = {"supervisor": 2.0, "driver": 20.0, "jvm": 40.0}
#: growth an hour
THREADS_LIMIT, FILES_LIMIT = 1.0, 2.0
#: Spark keeps a hundred epochs, three files each
CHECKPOINT_FILES_LIMIT = 1000
#: and of a query's state as many, for each of two partitions
STATE_FILES_LIMIT = 3000
#: lag in seconds of messages, at any time of the second half
LAG_LIMIT_SECONDS = 10.0
#: a shorter second half is not judged
LEAST_SECONDS = 600.0
#: above it samples are thinned out: the number of pairs grows with the square
_MOST_SAMPLES = 1000


def slope(at: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Median slope over all pairs, in units of `values` per unit of `at`. Needs at least two samples."""
    step = len(at) // _MOST_SAMPLES + 1
    at, values = at[::step], values[::step]
    first, second = np.triu_indices(len(at), 1)
    return float(np.median((values[second] - values[first]) / (at[second] - at[first])))


def second_half(samples: Sequence[Sample]) -> list[Sample]:
    """Samples of the second half of the time."""
    middle = (samples[0].seconds + samples[-1].seconds) / 2
    return [sample for sample in samples if sample.seconds >= middle]


def goals(samples: Sequence[Sample], rate: int, *, has_state: bool = False) -> list[Goal]:
    """The goals for one run, with the figures of its samples. `has_state`: a query's."""
    later = second_half(samples) if samples else []
    long_enough = len(later) > 1 and later[-1].seconds - later[0].seconds >= LEAST_SECONDS

    def growth(figure: Callable[[Sample], float]) -> float | None:
        if not long_enough:
            return None
        return round(hourly(later, figure), 3)

    return [
        *(
            Goal(
                what=f"growth of memory, {part}",
                unit="MB/h",
                limit=GROWTH_LIMITS[part],
                found=growth(lambda one, part=part: one.pss[part]),
            )
            for part in PARTS
        ),
        Goal(what="growth of threads", unit="an hour", limit=THREADS_LIMIT, found=growth(_all_threads)),
        Goal(what="growth of open files", unit="an hour", limit=FILES_LIMIT, found=growth(_all_files)),
        Goal(
            what="files of the checkpoint",
            unit="files",
            limit=STATE_FILES_LIMIT if has_state else CHECKPOINT_FILES_LIMIT,
            found=max((one.checkpoint_files for one in samples), default=None),
        ),
        Goal(
            what="rows of the ledger",
            unit="rows",
            limit=KEEP_EPOCHS + PRUNE_EVERY_EPOCHS,
            found=max((one.ledger_rows for one in samples), default=None),
        ),
        Goal(
            what="lag at any time",
            unit="s of messages",
            limit=LAG_LIMIT_SECONDS,
            found=max((one.lag_messages for one in later), default=0) / rate if later else None,
        ),
    ]


def hourly(samples: Sequence[Sample], figure: Callable[[Sample], float]) -> float:
    """Growth of a figure an hour."""
    at = np.array([one.seconds for one in samples]) / 3600
    return slope(at, np.array([figure(one) for one in samples], np.float64))


def _all_threads(one: Sample) -> float:
    return sum(one.threads.values())


def _all_files(one: Sample) -> float:
    return sum(one.files.values())
