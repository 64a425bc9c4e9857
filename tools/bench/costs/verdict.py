"""Whether the cost grows faster than the size.

Linear: what a message, or a byte, costs is the same at every size. Where an epoch or a message has a fixed cost, it
gets less as sizes grow, which is no fault; so two figures are told: `growth`, how many times as dear it is at some size
as at a smaller one, which is judged, and `spread`, the dearest to the cheapest. Where Postgres alone, the ceiling with
the same rows, grows dearer than linear from one size to another, as it does where rows become so long that it moves
values out of them, as much is granted there; not where it is dearer than the lane, which shows that it is no ceiling.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tools.bench.costs.axes import BASE_EPOCH_BYTES
from tools.bench.goals import Goal

#: growth up to which a cost is called linear: noise of a shared machine is a fifth
LIMIT = 1.5
#: megabytes. The driver: itself, and of each epoch in memory (the one that is applied, the one that is read ahead)
#: messages, rows and COPY lines. The JVM: Spark's heap of 1 GB, and what is outside of it
DRIVER_BASE, DRIVER_TIMES, JVM_LIMIT = 400, 8, 1536
#: bytes of the rows whose memory is judged
LONG_ROWS = 100_000
FIGURES = {"message": "cpu_microseconds_per_message", "byte": "cpu_seconds_per_gigabyte"}
#: the same of the ceiling
CEILINGS = {figure: f"ceiling_{figure}" for figure in FIGURES.values()}


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Of one axis."""

    axis: str
    unit: str
    #: None: a size failed, or there are fewer than two
    growth: float | None
    spread: float | None
    #: times that a unit costs the ceiling between the same two sizes; None: not measured, or dearer than the lane
    ceiling: float | None = None
    #: what is judged, and times that it may be: `growth`, or another pair's where that is more than may be
    judged: float | None = None
    limit: float = LIMIT

    @property
    def said(self) -> str:
        """As a sentence."""
        if self.growth is None or self.spread is None:
            return f"{self.axis}: not judged."
        word = "linear or better" if self.growth <= LIMIT else "dearer than linear"
        alone = "" if self.ceiling is None else f" ({self.ceiling:.2f} times for Postgres alone, the ceiling)"
        others = "" if self.judged == self.growth else f"; {self.judged} times where {self.limit:g} are granted"
        return (
            f"{self.axis}: {word}; a {self.unit} costs at most {self.growth:.2f} times what it costs at a smaller "
            f"size{alone}, the dearest {self.spread:.2f} times the cheapest{others}."
        )

    @property
    def goal(self) -> Goal:
        """What is asked of it."""
        what = f"CPU a {self.unit} at a larger size to that at a smaller one: {self.axis}"
        return Goal(what=what, unit="times", limit=self.limit, found=self.judged)


def growth(axis: str, unit: str, rows: Sequence[Mapping[str, Any]]) -> Growth:
    """Of the results of one axis, smallest size first."""
    figure = FIGURES[unit]
    costs = [(row[figure], row.get(CEILINGS[figure])) for row in rows if row["correct"] and row.get(figure)]
    if len(costs) < max(2, len(rows)):
        return Growth(axis=axis, unit=unit, growth=None, spread=None)
    grown = [_grown(earlier, later) for earlier, later in combinations(costs, 2)]
    worst, alone = max(grown, key=lambda pair: pair[0])
    judged, granted = max(grown, key=lambda pair: (pair[0] > _limit(pair[1]), pair[0]))
    known = [cost for cost, _ in costs]
    return Growth(
        axis=axis,
        unit=unit,
        growth=worst,
        spread=round(max(known) / min(known), 3),
        ceiling=alone,
        judged=judged,
        limit=LIMIT if judged <= LIMIT else _limit(granted),
    )


def _grown(earlier: tuple[float, float | None], later: tuple[float, float | None]) -> tuple[float, float | None]:
    """Times that it costs later what it did earlier, and that it costs the ceiling, where that is one."""
    (cost_before, alone_before), (cost, alone) = earlier, later
    granted = round(alone / alone_before, 3) if alone_before and alone and alone <= cost else None
    return round(cost / cost_before, 3), granted


def _limit(alone: float | None) -> float:
    return max(LIMIT, alone or 0.0)


def memory(rows: Sequence[Mapping[str, Any]]) -> list[Goal]:
    """What is asked of the rows of 100 KB, where they were measured."""
    peaks = [row["peak_megabytes"] for row in rows if row["row_bytes"] == LONG_ROWS and row["correct"]]
    if not any(row["row_bytes"] == LONG_ROWS for row in rows):
        return []
    limits = {"driver": DRIVER_BASE + DRIVER_TIMES * (BASE_EPOCH_BYTES >> 20), "jvm": JVM_LIMIT}
    return [
        Goal(
            what=f"peak memory with rows of 100 KB: {part}",
            unit="MB",
            limit=limit,
            found=max((peak[part] for peak in peaks), default=None),
        )
        for part, limit in limits.items()
    ]
