"""Judges whether the cost grows faster than the size.

Linear: a message, or a byte, costs the same at every size. Where an epoch or a message has a fixed cost, the unit cost
falls as sizes grow, which is no fault. So there are two figures: `growth`, the largest ratio of the unit cost at a size
to that at a smaller one, which is judged, and `spread`, the highest to the lowest unit cost. Where the ceiling, with
the same rows, grows faster than linear between two sizes, as it does where rows become so long that Postgres toasts
their values, the limit is the ceiling's growth; not where the ceiling costs more than the lane, because then it is no
ceiling.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from tools.bench.axes import BASE_EPOCH_BYTES
from tools.bench.page import Goal
from tools.bench.summary import Group, of_field

#: a cost is called linear up to this growth: the noise of a shared machine is a fifth
LIMIT = 1.5
#: megabytes. The driver: its base, and for each epoch in memory (the one applied, the one staged ahead) messages, rows
#: and COPY lines. The JVM: Spark's heap of 1 GB, and its memory outside of the heap
DRIVER_BASE, DRIVER_TIMES, JVM_LIMIT = 400, 8, 1536
#: peak memory is judged for rows of so many bytes
LONG_ROWS = 100_000
FIGURES = {"message": "cpu_microseconds_per_message", "byte": "cpu_seconds_per_gigabyte"}
#: the same figures for the ceiling
CEILINGS = {figure: f"ceiling_{figure}" for figure in FIGURES.values()}


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Growth of the unit cost along one axis."""

    axis: str
    unit: str
    #: None: a size failed, or there are fewer than two
    growth: float | None = None
    spread: float | None = None
    #: growth of the ceiling between the same two sizes; None: not measured, or it costs more than the lane
    ceiling: float | None = None
    #: the judged growth and its limit: `growth`, or that of another pair that exceeds its limit
    judged: float | None = None
    limit: float = LIMIT

    @property
    def sentence(self) -> str:
        """The result as a sentence."""
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
        what = f"CPU a {self.unit} at a larger size to that at a smaller one: {self.axis}"
        return Goal(what, self.limit, self.judged, "times")


def growth(axis: str, unit: str, sizes: Sequence[Group]) -> Growth:
    """Growth over the measurements of one axis, the smallest size first."""
    figure = FIGURES[unit]
    costs = [
        (cost, one.median(of_field(CEILINGS[figure])))
        for one in sizes
        if one.is_right and (cost := one.median(of_field(figure)))
    ]
    if len(costs) < max(2, len(sizes)):
        return Growth(axis=axis, unit=unit)
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
    """Ratio of the later to the earlier cost, and that of the ceiling if it costs no more than the lane."""
    (cost_before, alone_before), (cost, alone) = earlier, later
    granted = round(alone / alone_before, 3) if alone_before and alone and alone <= cost else None
    return round(cost / cost_before, 3), granted


def _limit(alone: float | None) -> float:
    return max(LIMIT, alone or 0.0)


def memory(sizes: Sequence[Group]) -> list[Goal]:
    """Goals for peak memory with rows of 100 KB; empty if they were not measured."""
    long = next((one for one in sizes if one.get("row_bytes") == LONG_ROWS), None)
    if long is None:
        return []
    limits = {"driver": DRIVER_BASE + DRIVER_TIMES * (BASE_EPOCH_BYTES >> 20), "jvm": JVM_LIMIT}
    peaks = {part: max(long.all_of(of_field("peak_megabytes", part)), default=None) for part in limits}
    return [
        Goal(f"peak memory with rows of 100 KB: {part}", limit, peaks[part], "MB") for part, limit in limits.items()
    ]
