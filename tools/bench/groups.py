"""The runs of what was measured several times: medians, ratios within a run, and their columns of a table."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tools.bench import results
from tools.bench.page import Column, number
from tools.bench.results import QUIET_LOAD, Result, cpu_used

#: processes that are shown separately; all others are the client
SERVERS = ("postgres", "kafka")
PARTS = ("client", *SERVERS)
Figure = Callable[[Result], float | None]


class Ratio(NamedTuple):
    """Ratio of a figure of two groups within each run: median, lowest and highest."""

    middle: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        spread = f" ({self.lowest:.2f} - {self.highest:.2f})" if self.lowest != self.highest else ""
        return f"{self.middle:.2f}{spread}"


@dataclass(frozen=True)
class Group:
    """The runs of one measurement; only those that left the right table count."""

    runs: Sequence[Result]

    def get(self, field: str) -> Any:
        """A field that is the same in all runs; None: they do not have it."""
        return self.runs[0].get(field)

    @property
    def by_run(self) -> Mapping[int, Result]:
        return {run["run"]: run for run in self.runs if run["correct"]}

    @property
    def is_right(self) -> bool:
        """Whether every run was."""
        return all(run["correct"] for run in self.runs)

    @property
    def state(self) -> str:
        """`right`, or what became of the first run that was not."""
        return next((results.state(run) for run in self.runs if not run["correct"]), "right")

    @property
    def load(self) -> str:
        """Processors that other programs kept busy or the host stole, in the worst run."""
        worst = max(map(results.disturbance, self.runs), default=0.0)
        return f"{worst:.1f}, noisy" if worst > QUIET_LOAD else f"{worst:.1f}"

    def all_of(self, figure: Figure) -> list[float]:
        return [found for run in self.by_run.values() if (found := figure(run)) is not None]

    def median(self, figure: Figure) -> float | None:
        found = self.all_of(figure)
        return statistics.median(found) if found else None

    def judged(self, figure: Figure, digits: int = 2) -> float | None:
        """The median for a goal; None unless all runs are right and have the figure."""
        found = self.all_of(figure)
        return round(statistics.median(found), digits) if found and len(found) == len(self.runs) else None

    def ratio(self, other: "Group | None", figure: Figure) -> Ratio | None:
        """To the other's, within each run; None if no run has both. Ratios within a run exclude drift of the machine
        over the runs, but not what disturbs only one side."""
        mine, others = self.by_run, other.by_run if other else {}
        both = [(figure(mine[run]), figure(others[run])) for run in mine if run in others]
        found = [above / below for above, below in both if above is not None and below]
        return Ratio(statistics.median(found), min(found), max(found)) if found else None

    def right_ratio(self, other: "Group | None", figure: Figure) -> Ratio | None:
        """The same; None if a run of the two was wrong."""
        return self.ratio(other, figure) if other and self.is_right and other.is_right else None


def grouped(done: Sequence[Result], *fields: str) -> list[Group]:
    """Groups with the same values of these fields, in the order of the first measurement."""
    found: dict[tuple[Any, ...], list[Result]] = {}
    for result in done:
        found.setdefault(tuple(result.get(field) for field in fields), []).append(result)
    return [Group(runs) for runs in found.values()]


def find(groups: Sequence[Group], **fields: object) -> Group | None:
    """The group with these values."""
    return next((one for one in groups if all(one.get(name) == value for name, value in fields.items())), None)


def near_and_far(groups: Sequence[Group]) -> tuple[list[Group], list[Group]]:
    """Those without a distance to Postgres, and those with one."""
    far = [one for one in groups if one.get("round_trip") is not None]
    return [one for one in groups if one not in far], far


def nearest(groups: Sequence[Group], one: Group, *fields: str) -> Group:
    """The group with the shortest round trip of those that have the same values of these fields as `one`."""
    same = [other for other in groups if all(other.get(name) == one.get(name) for name in fields)]
    return min(same, key=lambda other: other.get("round_trip"))


def of_field(*path: str) -> Figure:
    """A field of a result, or one within it."""

    def figure(run: Result) -> float | None:
        found: Any = run
        for name in path:
            found = (found or {}).get(name)
        return found

    return figure


def cell(*path: str, digits: int = 0) -> Callable[[Any], str]:
    """The cell of a field of a result, or of one within it."""
    return lambda one: number(of_field(*path)(one), digits)


def median_of(figure: Figure, digits: int = 0) -> Callable[[Group], str]:
    """The cell of a group's median."""
    return lambda one: number(one.median(figure), digits)


def spread_of(figure: Figure, digits: int = 0) -> Callable[[Group], str]:
    """The cell of a group's lowest and highest; empty for one run."""

    def shown(one: Group) -> str:
        found = one.all_of(figure)
        return f"{number(min(found), digits)} - {number(max(found), digits)}" if len(found) > 1 else ""

    return shown


#: columns that every table of groups has: the system, and what became of the runs
SYSTEM: Column = ("system", cell("system"))
STATE: Column = ("table", lambda one: one.state)
LOAD: Column = ("others' load", lambda one: one.load)


#: messages a second from the first poll that found rows to the last message's row, and from process start
rate, rate_from_start = of_field("rate"), of_field("rate_from_start")


def cpu(run: Result) -> float | None:
    """CPU seconds for a million messages, all processes."""
    return sum(cpu_used(run).values()) / run["messages"] * 1e6


def cpu_of(part: str) -> Figure:
    """CPU seconds for a million messages of one of PARTS."""

    def found(run: Result) -> float | None:
        used = cpu_used(run)
        client = sum(seconds for name, seconds in used.items() if name not in SERVERS)
        return (client if part == "client" else used.get(part, 0.0)) / run["messages"] * 1e6

    return found


def cpu_after_start(run: Result) -> float | None:
    """CPU seconds for a million messages, of those not visible at the first poll: the cost of one more."""
    messages = run["messages"] - run.get("messages_at_first_look", 0)
    used = sum(cpu_used(run, "cpu_seconds_after_first_look").values())
    return used / messages * 1e6 if messages and used else None


def cpu_a_gigabyte(run: Result) -> float | None:
    """CPU seconds for a gigabyte of message values, all processes."""
    return sum(cpu_used(run).values()) / run["value_bytes"] * 1e9 if run.get("value_bytes") else None
