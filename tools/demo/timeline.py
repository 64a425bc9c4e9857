"""The data of the charts; times are seconds since the load began."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tools.demo.topic import Length
from tools.demo.watch import SeenBeat, SeenEpoch

#: points (seconds, value)
Series = tuple[tuple[float, float], ...]
#: seconds before the crash that determine the usual lag
USUAL_SECONDS = 8.0


@dataclass(frozen=True, kw_only=True)
class Tick:
    at: float
    generation: int
    epoch: int
    messages: int
    plan: str


@dataclass(frozen=True, kw_only=True)
class Timeline:
    seconds: float
    load_ended: float
    killed: float
    first_epoch: float
    caught_up: float
    produced: Series  #: messages a second that arrived in the topic, for each second
    applied: Series  #: messages a second that became visible, for each second
    lag: Series  #: messages
    latency: Series  #: seconds from commit to visible, for each beat, at the time of its commit
    epochs: tuple[Tick, ...]


def lags(lengths: Iterable[Length], epochs: Sequence[SeenEpoch]) -> list[tuple[float, int]]:
    """(monotonic seconds, messages in the topic not yet visible at the target) at each observation of the topic."""
    moments = [epoch.at for epoch in epochs]
    return [
        (length.at, max(0, length.end - (epochs[seen - 1].end if seen else 0)))
        for length in lengths
        for seen in [bisect_right(moments, length.at)]
    ]


def usual_lag(lag: Iterable[tuple[float, int]], killed: float) -> int:
    """The highest lag in the USUAL_SECONDS before the crash."""
    return max((messages for at, messages in lag if killed - USUAL_SECONDS <= at <= killed), default=0)


def latencies(committed: Sequence[float], beats: Iterable[SeenBeat]) -> list[tuple[float, float]]:
    """(time of the source's commit, seconds until visible) for every beat.

    An epoch with several beats shows only the last; the others became visible with it, and count, too.
    """
    seen, found = 0, []
    for beat in beats:
        found += [(committed[number], beat.at - committed[number]) for number in range(seen, beat.beat)]
        seen = beat.beat
    return found


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value that `share` (0 to 1) of all values do not exceed; None without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def growth(points: Iterable[tuple[float, float]], began: float, seconds: float) -> Series:
    """The increase of a growing number in each whole second since `began`."""
    moments, totals = zip(*points, strict=True)
    bounds = [_at(moments, totals, began + second) for second in range(int(seconds) + 1)]
    return tuple((float(second), after - before) for second, (before, after) in enumerate(pairwise(bounds)))


def _at(moments: Sequence[float], totals: Sequence[float], at: float) -> float:
    """The last value known at that moment."""
    index = bisect_right(moments, at)
    return totals[index - 1] if index else totals[0]
