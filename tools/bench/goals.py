"""What is to be reached by measurements that need no other system, and whether it was."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tools.bench.page import Table


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A figure that is not to be larger than its limit."""

    what: str
    unit: str
    limit: float
    #: None: too little was seen to judge
    found: float | None

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.found is None:
            return "not judged"
        return "reached" if self.found <= self.limit else "MISSED"

    def as_result(self) -> dict[str, object]:
        """In a JSON line."""
        return {**asdict(self), "verdict": self.verdict}


def table(goals: Sequence[Goal]) -> Table:
    """One row for each."""
    rows = [(goal.what, f"at most {goal.limit:g} {goal.unit}", _figure(goal), goal.verdict) for goal in goals]
    return Table(title="Goals", columns=("goal", "limit", "found", ""), rows=rows)


def _figure(goal: Goal) -> str:
    return "" if goal.found is None else f"{goal.found:,.2f}"
