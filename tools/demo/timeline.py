"""The run as it is drawn: everything in seconds since the load began."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tools.demo.topic import Length
from tools.demo.watch import SeenBeat, SeenEpoch

#: a series: (seconds, value)
Series = tuple[tuple[float, float], ...]
#: how much of the time before the crash says what lag is usual
USUAL_SECONDS = 8.0


@dataclass(frozen=True, kw_only=True)
class Tick:
    """An epoch that became visible."""

    at: float
    generation: int
    epoch: int
    messages: int
    plan: str


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """What the page draws."""

    seconds: float
    load_ended: float
    killed: float
    first_epoch: float
    caught_up: float
    produced: Series  #: messages a second that came into the topic, for each second
    applied: Series  #: messages a second that became visible, for each second
    lag: Series  #: messages
    latency: Series  #: seconds until it was visible, for each beat, at the time of its commit
    epochs: tuple[Tick, ...]


def lags(lengths: Iterable[Length], epochs: Sequence[SeenEpoch]) -> list[tuple[float, int]]:
    """Messages that the topic had and the target had not, at each look at the topic."""
    moments = [epoch.at for epoch in epochs]
    return [
        (length.at, max(0, length.end - (epochs[seen - 1].end if seen else 0)))
        for length in lengths
        for seen in [bisect_right(moments, length.at)]
    ]


def usual_lag(lag: Iterable[tuple[float, int]], killed: float) -> int:
    """The highest lag of the last seconds before the crash."""
    return max((messages for at, messages in lag if killed - USUAL_SECONDS <= at <= killed), default=0)


def latencies(committed: Sequence[float], beats: Iterable[SeenBeat]) -> list[tuple[float, float]]:
    """(when the source had committed it, seconds until it was visible) of every beat.

    An epoch that holds several beats shows only the last; the others became visible with it, and count.
    """
    seen, found = 0, []
    for beat in beats:
        found += [(committed[number], beat.at - committed[number]) for number in range(seen, beat.beat)]
        seen = beat.beat
    return found


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value that this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def growth(points: Iterable[tuple[float, float]], began: float, seconds: float) -> Series:
    """A growing number as growth a second, for each whole second since `began`."""
    moments, totals = zip(*points, strict=True)
    bounds = [_at(moments, totals, began + second) for second in range(int(seconds) + 1)]
    return tuple((float(second), after - before) for second, (before, after) in enumerate(pairwise(bounds)))


def _at(moments: Sequence[float], totals: Sequence[float], at: float) -> float:
    """The newest value at that moment."""
    index = bisect_right(moments, at)
    return totals[index - 1] if index else totals[0]
