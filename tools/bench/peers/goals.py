"""Goals relative to the other systems, and verdicts on them."""

from collections.abc import Iterator
from dataclasses import dataclass

from tools.bench.burst import LIMIT_MILLISECONDS
from tools.bench.costs.guard import LIMIT_PERCENT
from tools.bench.costs.verdict import DRIVER_BASE, DRIVER_TIMES, JVM_LIMIT, LIMIT
from tools.bench.peers.summary import Drains, Figure, Ratio, cpu, rate, rate_from_start, ratio
from tools.bench.peers.system import System
from tools.bench.restart import CAUGHT_UP_LIMIT_SECONDS, FIRST_LIMIT_SECONDS
from tools.bench.soak.verdict import GROWTH_LIMITS
from tools.bench.workload import Kind


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A lower or upper limit for a ratio."""

    what: str
    limit: float
    at_least: bool
    #: numerator and denominator of the ratio
    above: tuple[System, Kind]
    below: tuple[System, Kind]
    figure: Figure


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result for a goal."""

    goal: Goal
    #: None: not judged, because a side failed or left a wrong table
    found: Ratio | None
    #: the same ratio from process start, where it is known; not judged
    from_start: Ratio | None

    @property
    def reached(self) -> bool:
        """Whether the median is within the limit; False if not judged."""
        if self.found is None:
            return False
        return self.found.middle >= self.goal.limit if self.goal.at_least else self.found.middle <= self.goal.limit


_OWN = (System.SURELANE, Kind.UNIFORM)


def _faster(peer: System, limit: float, what: str) -> Goal:
    return Goal(what=what, limit=limit, at_least=True, above=_OWN, below=(peer, Kind.UNIFORM), figure=rate)


def _cheaper(peer: System, limit: float, what: str) -> Goal:
    return Goal(what=what, limit=limit, at_least=False, above=_OWN, below=(peer, Kind.UNIFORM), figure=cpu)


GOALS = (
    _faster(System.FLINK_TABLE, 1.5, "rate against Flink's JDBC table"),
    _faster(System.FLINK_XA, 3.0, "rate against Flink over XA"),
    _faster(System.DEBEZIUM_JDBC, 2.5, "rate against the Debezium JDBC sink"),
    _cheaper(System.FLINK_TABLE, 0.6, "CPU a message against Flink's JDBC table"),
    _cheaper(System.FLINK_XA, 0.6, "CPU a message against Flink over XA"),
    _faster(System.CEILING, 0.7, "rate against the ceiling"),
    Goal(
        what="rate of hot rows against uniform ones",
        limit=1.0,
        at_least=True,
        above=(System.SURELANE, Kind.HOT),
        below=_OWN,
        figure=rate,
    ),
)


def judged(drains: Drains) -> Iterator[Verdict]:
    """A verdict for each goal whose two sides were measured."""
    for goal in GOALS:
        above, below = drains.get(goal.above), drains.get(goal.below)
        if above and below:
            right = above.right and below.right
            found = ratio(above, below, goal.figure) if right else None
            is_rate = right and goal.figure is rate
            from_start = ratio(above, below, rate_from_start) if is_rate else None
            yield Verdict(goal=goal, found=found, from_start=from_start)


#: goals for Surelane alone, which other commands measure and judge, on another page: (goal, limit, command)
ELSEWHERE = (
    (
        "CPU a message, or a byte, at a larger size to that at a smaller one",
        f"{LIMIT:g} times, or the ceiling's",
        "bench-costs",
    ),
    (
        "peak memory with rows of 100 KB",
        f"driver {DRIVER_BASE} MB and {DRIVER_TIMES} times `epoch.max_bytes`, JVM {JVM_LIMIT} MB",
        "bench-costs",
    ),
    ("CPU of guard, accounting and metrics together", f"{LIMIT_PERCENT:g} %", "bench-costs --guard"),
    (
        "killed under load: start to the first new epoch, and to a lag under a second",
        f"{FIRST_LIMIT_SECONDS:g} s, {CAUGHT_UP_LIMIT_SECONDS:g} s",
        "bench-restart",
    ),
    ("last epoch of a burst visible after its checkpoint entry", f"{LIMIT_MILLISECONDS:g} ms", "bench-burst"),
    (
        "growth of memory in an hour: " + ", ".join(GROWTH_LIMITS),
        ", ".join(f"{limit:g}" for limit in GROWTH_LIMITS.values()) + " MB",
        "bench-soak",
    ),
)
