"""Goals of the measurements, and verdicts on them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tools.bench.page import Table


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A limit for a figure."""

    what: str
    unit: str = ""
    limit: float
    #: None: too little data to judge, or a wrong table
    found: float | None
    at_least: bool = False
    #: all figures of which `found` is the worst
    detail: str = ""

    @property
    def verdict(self) -> str:
        if self.found is None:
            return "not judged"
        reached = self.found >= self.limit if self.at_least else self.found <= self.limit
        return "reached" if reached else "MISSED"

    def as_result(self) -> dict[str, object]:
        """Fields for a JSON line."""
        return {**asdict(self), "verdict": self.verdict}


def table(goals: Sequence[Goal], title: str = "Goals") -> Table:
    rows = [(goal.what, _limit(goal), _figure(goal), goal.detail, goal.verdict) for goal in goals]
    if any(goal.detail for goal in goals):
        return Table(title=title, columns=("goal", "limit", "worst", "all", ""), rows=rows)
    return Table(title=title, columns=("goal", "limit", "found", ""), rows=[(*row[:3], row[4]) for row in rows])


def _limit(goal: Goal) -> str:
    return f"{'at least' if goal.at_least else 'at most'} {goal.limit:g} {goal.unit}".rstrip()


def _figure(goal: Goal) -> str:
    return "" if goal.found is None else f"{goal.found:,.2f}"
