"""Goals relative to the other systems, and verdicts on them."""

from collections.abc import Iterator, Mapping
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
    #: what is compared, by its name; each of them for each number of messages
    figures: Mapping[str, Figure]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result for a goal."""

    goal: Goal
    #: by number of messages and figure; empty: not judged, because a side failed or left a wrong table
    found: Mapping[str, Ratio]

    @property
    def worst(self) -> Ratio | None:
        """What is judged."""
        worse = min if self.goal.at_least else max
        return worse(self.found.values(), key=lambda one: one.middle, default=None)

    @property
    def reached(self) -> bool:
        """Whether the worst median is within the limit; False if not judged."""
        if (worst := self.worst) is None:
            return False
        return worst.middle >= self.goal.limit if self.goal.at_least else worst.middle <= self.goal.limit


_OWN = (System.SURELANE, Kind.UNIFORM)
_RATES = {"from the first row": rate, "from process start": rate_from_start}


def _faster(peer: System, limit: float, what: str) -> Goal:
    return Goal(what=what, limit=limit, at_least=True, above=_OWN, below=(peer, Kind.UNIFORM), figures=_RATES)


def _cheaper(peer: System, limit: float, what: str) -> Goal:
    return Goal(what=what, limit=limit, at_least=False, above=_OWN, below=(peer, Kind.UNIFORM), figures={"": cpu})


GOALS = (
    _faster(System.FLINK_TABLE, 2.8, "rate against Flink's JDBC table"),
    _faster(System.FLINK_XA, 2.5, "rate against Flink over XA"),
    _faster(System.DEBEZIUM_JDBC, 3.5, "rate against the Debezium JDBC sink"),
    _cheaper(System.FLINK_TABLE, 0.45, "CPU a message against Flink's JDBC table"),
    _cheaper(System.FLINK_XA, 0.45, "CPU a message against Flink over XA"),
    _cheaper(System.DEBEZIUM_JDBC, 0.45, "CPU a message against the Debezium JDBC sink"),
    Goal(
        what="rate against the ceiling",
        limit=0.6,
        at_least=True,
        above=_OWN,
        below=(System.CEILING, Kind.UNIFORM),
        figures={"from the first row": rate},
    ),
    Goal(
        what="rate of hot rows against uniform ones",
        limit=1.0,
        at_least=True,
        above=(System.SURELANE, Kind.HOT),
        below=_OWN,
        figures=_RATES,
    ),
)


def judged(drains: Drains) -> Iterator[Verdict]:
    """A verdict for each goal whose two sides were measured."""
    counts = sorted({messages for _, _, messages in drains})
    for goal in GOALS:
        pairs = {count: (drains.get((*goal.above, count)), drains.get((*goal.below, count))) for count in counts}
        known = {count: (above, below) for count, (above, below) in pairs.items() if above and below}
        if not known:
            continue
        right = all(above.right and below.right for above, below in known.values())
        found = {
            f"{count:,} {name}".strip(): one
            for count, (above, below) in known.items()
            for name, figure in goal.figures.items()
            if (one := ratio(above, below, figure)) is not None
        }
        yield Verdict(goal=goal, found=found if right else {})


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
