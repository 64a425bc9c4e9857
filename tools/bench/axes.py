"""The axes: each varies one dimension around one base. Equal cases of several axes are measured once.

Whether the cost grows faster than the size is judged along an axis. Linear: a message, or a byte, costs the same at
every size. Where an epoch or a message has a fixed cost, the unit cost falls as sizes grow, which is no fault. So there
are two figures: `growth`, the largest ratio of the unit cost at a size to that at a smaller one, which is judged, and
`spread`, the highest to the lowest unit cost. Where the ceiling, with the same rows, grows faster than linear between
two sizes, as it does where rows become so long that Postgres toasts their values, the limit is the ceiling's growth;
not where the ceiling costs more than the lane, because then it is no ceiling.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from app.config.settings import EpochSettings
from tools.bench.page import Goal
from tools.bench.summary import Group, of_field
from tools.testbed.workload import Shape, as_many_bytes, bytes_each

#: messages of the base; cases with longer rows have about the same number of bytes
BASE_MESSAGES = 1_000_000
#: Surelane's defaults: messages and bytes of an epoch
BASE_EPOCH, BASE_EPOCH_BYTES = EpochSettings().max_messages, EpochSettings().max_bytes
#: most rows of the table at a time
BASE_ROWS = 200_000
#: least messages for each row of the table; with fewer messages the table is smaller
_MESSAGES_A_ROW = 5
#: lower limits of scaling
LEAST_MESSAGES, LEAST_EPOCH = 200, 20
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
NAMES = ("messages", "tables", "columns", "whole-columns", "row-bytes", "epoch-messages")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One drain to measure."""

    shape: Shape
    messages: int
    #: `epoch.max_messages` and `epoch.max_bytes`
    epoch: int
    epoch_bytes: int = BASE_EPOCH_BYTES

    @property
    def chunk(self) -> int:
        """Messages of an epoch, by whichever limit is reached first; the ceiling commits as many together."""
        return max(1, min(self.epoch, int(self.epoch_bytes / bytes_each(self.shape))))

    @property
    def fields(self) -> dict[str, object]:
        """Fields of a result that identify the case."""
        return {
            "workload": self.shape.name,
            "messages": self.messages,
            "tables": self.shape.tables,
            "columns": self.shape.columns,
            "row_bytes": self.shape.row_bytes,
            "epoch_messages": self.epoch,
            "epoch_bytes": self.epoch_bytes,
        }


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One dimension with its cases."""

    name: str
    #: size -> case
    cases: Mapping[int, Case]
    #: unit whose cost should stay constant: message or byte
    unit: str = "message"
    #: whether the rows that the server writes differ by size, so that the ceiling is measured, too
    has_ceiling: bool = True


def axes(names: Sequence[str], scale: float = 1.0) -> Iterator[Axis]:
    """The axes with these names; `scale` reduces all sizes, epochs included. Sizes that become equal by scaling are
    merged."""
    for name in names:
        axis = _axis(name)
        scaled = [(size, _scaled(case, scale)) for size, case in axis.cases.items()]
        called = {"messages": lambda case: case.messages, "epoch-messages": lambda case: case.epoch}.get(name)
        yield replace(axis, cases={called(case) if called else size: case for size, case in scaled})


def base(scale: float = 1.0) -> Case:
    """The base case, scaled."""
    return _scaled(_BASE, scale)


_BASE = Case(shape=Shape(most_rows=BASE_ROWS), messages=BASE_MESSAGES, epoch=BASE_EPOCH)


def _axis(name: str) -> Axis:
    match name:
        case "messages":
            sizes = {size: replace(_BASE, messages=size) for size in (1_000_000, 3_000_000, 10_000_000)}
            return Axis(name=name, cases=sizes, has_ceiling=False)
        case "tables":
            return Axis(name=name, cases={size: _like(tables=size) for size in (1, 10, 100)})
        case "columns":
            return Axis(name=name, cases={size: _like(columns=size) for size in (5, 20, 50, 100, 200)}, unit="byte")
        case "whole-columns":
            sizes = {size: _like(columns=size, is_whole=True) for size in (50, 100, 200)}
            return Axis(name=name, cases=sizes, unit="byte")
        case "row-bytes":
            return Axis(
                name=name, cases={size: _like(row_bytes=size) for size in (100, 1000, 10_000, 100_000)}, unit="byte"
            )
        case _:
            short = {size: replace(_BASE, epoch=size, messages=200 * size) for size in (100, 1000)}
            # limited by messages, not by bytes
            large = replace(_BASE, epoch=500_000, messages=3_000_000, epoch_bytes=8 * BASE_EPOCH_BYTES)
            long = {10_000: replace(_BASE, epoch=10_000), BASE_EPOCH: _BASE, large.epoch: large}
            return Axis(name=name, cases={**short, **long}, has_ceiling=False)


def _like(**changed: int) -> Case:
    """The base with a changed shape, about as many bytes, and a table small enough for the number of messages."""
    shape = replace(_BASE.shape, **changed)
    messages = as_many_bytes(shape, BASE_MESSAGES)
    most = min(BASE_ROWS, max(2, messages // _MESSAGES_A_ROW))
    return replace(_BASE, shape=replace(shape, most_rows=most), messages=messages)


def _scaled(case: Case, scale: float) -> Case:
    most = max(2, round((case.shape.most_rows or BASE_ROWS) * scale))
    return replace(
        case,
        shape=replace(case.shape, most_rows=most),
        messages=max(LEAST_MESSAGES, round(case.messages * scale)),
        epoch=max(LEAST_EPOCH, round(case.epoch * scale)),
        epoch_bytes=max(1, round(case.epoch_bytes * scale)),
    )


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
