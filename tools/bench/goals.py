"""Goals of the measurements without other systems, and verdicts on them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tools.bench.page import Table


@dataclass(frozen=True, kw_only=True)
class Goal:
    """An upper limit for a figure."""

    what: str
    unit: str
    limit: float
    #: None: too little data to judge
    found: float | None

    @property
    def verdict(self) -> str:
        if self.found is None:
            return "not judged"
        return "reached" if self.found <= self.limit else "MISSED"

    def as_result(self) -> dict[str, object]:
        """Fields for a JSON line."""
        return {**asdict(self), "verdict": self.verdict}


def table(goals: Sequence[Goal]) -> Table:
    rows = [(goal.what, f"at most {goal.limit:g} {goal.unit}", _figure(goal), goal.verdict) for goal in goals]
    return Table(title="Goals", columns=("goal", "limit", "found", ""), rows=rows)


def _figure(goal: Goal) -> str:
    return "" if goal.found is None else f"{goal.found:,.2f}"
