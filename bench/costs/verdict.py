"""Whether the cost grows faster than the size.

Linear: what a message, or a byte, costs is the same at every size. Where an epoch or a message has a fixed cost, it
gets less as sizes grow, which is no fault; so two figures are told: `growth`, how many times as dear it is at some size
as at a smaller one, which is judged, and `spread`, the dearest to the cheapest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from bench.costs.axes import BASE_EPOCH_BYTES
from bench.goals import Goal

#: growth up to which a cost is called linear: noise of a shared machine is a fifth
LIMIT = 1.5
#: megabytes. The driver: itself, and of each epoch in memory (the one that is applied, the one that is read ahead)
#: messages, rows and COPY lines. The JVM: Spark's heap of 1 GB, and what is outside of it
DRIVER_BASE, DRIVER_TIMES, JVM_LIMIT = 400, 8, 1536
#: bytes of the rows whose memory is judged
LONG_ROWS = 100_000
FIGURES = {"message": "cpu_microseconds_per_message", "byte": "cpu_seconds_per_gigabyte"}


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Of one axis."""

    axis: str
    unit: str
    #: None: a size failed, or there are fewer than two
    growth: float | None
    spread: float | None

    @property
    def said(self) -> str:
        """As a sentence."""
        if self.growth is None or self.spread is None:
            return f"{self.axis}: not judged."
        word = "linear or better" if self.growth <= LIMIT else "dearer than linear"
        return (
            f"{self.axis}: {word}; a {self.unit} costs at most {self.growth:.2f} times what it costs at a smaller "
            f"size, the dearest {self.spread:.2f} times the cheapest."
        )

    @property
    def goal(self) -> Goal:
        """What is asked of it."""
        what = f"CPU a {self.unit} at a larger size to that at a smaller one: {self.axis}"
        return Goal(what=what, unit="times", limit=LIMIT, found=self.growth)


def growth(axis: str, unit: str, rows: Sequence[Mapping[str, Any]]) -> Growth:
    """Of the results of one axis, smallest size first."""
    costs = [row.get(FIGURES[unit]) if row["correct"] else None for row in rows]
    known = [cost for cost in costs if cost]
    if len(known) < max(2, len(costs)):
        return Growth(axis=axis, unit=unit, growth=None, spread=None)
    worst = max(later / earlier for earlier, later in combinations(known, 2))
    return Growth(axis=axis, unit=unit, growth=round(worst, 3), spread=round(max(known) / min(known), 3))


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
