"""The axes: each varies one dimension around one base. Equal cases of several axes are measured once.

Whether the cost grows faster than the size is judged along an axis: by the largest ratio of the cost of a message, or
of a byte, at one size to that at a smaller one. Where an epoch or a message has a fixed cost it falls as sizes grow,
which is no fault. Where the ceiling, with the same rows, grows faster than linear between two sizes, as it does where
rows become so long that Postgres toasts their values, the limit is the ceiling's growth; not where the ceiling costs
more than the lane, because then it is no ceiling.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from app.config.settings import EpochSettings
from tools.bench.groups import Figure, Group, cpu, cpu_after_start, of_field
from tools.bench.page import Goal
from tools.peers.systems import CEILING
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
#: megabytes. Driver and stage process: a base, and for each epoch in memory (the one applied, the one staged ahead)
#: messages, rows and COPY lines. The JVM: Spark's heap of 1 GB, and its memory outside of the heap
EPOCHS_LIMIT, JVM_LIMIT = 400 + 8 * (BASE_EPOCH_BYTES >> 20), 1536
#: peak memory is judged for rows of so many bytes
LONG_ROWS = 100_000


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


BASE = Case(shape=Shape(most_rows=BASE_ROWS), messages=BASE_MESSAGES, epoch=BASE_EPOCH)


def _like(**changed: int) -> Case:
    """The base with a changed shape, about as many bytes, and a table small enough for the number of messages."""
    shape = replace(BASE.shape, **changed)
    messages = as_many_bytes(shape, BASE_MESSAGES)
    most = min(BASE_ROWS, max(2, messages // _MESSAGES_A_ROW))
    return replace(BASE, shape=replace(shape, most_rows=most), messages=messages)


def _in_epochs(epoch: int) -> Case:
    """The base in epochs of so many messages: few of the small ones; the largest are not limited by their bytes."""
    messages = min(max(BASE_MESSAGES, 6 * epoch), 200 * epoch)
    return replace(BASE, epoch=epoch, messages=messages, epoch_bytes=BASE_EPOCH_BYTES * max(1, 8 * epoch // 500_000))


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One dimension with its cases."""

    #: field of a result that is the size
    field: str
    make: Callable[[int], Case]
    sizes: Sequence[int]
    #: unit whose cost should stay the same: message or byte
    unit: str = "message"
    #: whether the rows that the server writes differ by size, so that the ceiling is measured, too
    has_ceiling: bool = True

    def cases(self, scale: float = 1.0) -> list[Case]:
        """The smallest first; `scale` reduces all sizes, epochs included. Those that become equal are merged."""
        found = [scaled(self.make(size), scale) for size in self.sizes]
        return list({case.fields[self.field]: case for case in found}.values())


AXES: Mapping[str, Axis] = {
    "messages": Axis(
        field="messages",
        make=lambda size: replace(BASE, messages=size),
        sizes=(1_000_000, 3_000_000, 10_000_000),
        has_ceiling=False,
    ),
    "tables": Axis(field="tables", make=lambda size: _like(tables=size), sizes=(1, 10, 100)),
    "columns": Axis(field="columns", make=lambda size: _like(columns=size), sizes=(5, 20, 50, 100, 200), unit="byte"),
    "whole-columns": Axis(
        field="columns", make=lambda size: _like(columns=size, is_whole=True), sizes=(50, 100, 200), unit="byte"
    ),
    "row-bytes": Axis(
        field="row_bytes",
        make=lambda size: _like(row_bytes=size),
        sizes=(100, 1000, 10_000, LONG_ROWS),
        unit="byte",
    ),
    "epoch-messages": Axis(
        field="epoch_messages", make=_in_epochs, sizes=(100, 1000, 10_000, BASE_EPOCH, 500_000), has_ceiling=False
    ),
}


def scaled(case: Case, scale: float) -> Case:
    most = max(2, round((case.shape.most_rows or BASE_ROWS) * scale))
    return replace(
        case,
        shape=replace(case.shape, most_rows=most),
        messages=max(LEAST_MESSAGES, round(case.messages * scale)),
        epoch=max(LEAST_EPOCH, round(case.epoch * scale)),
        epoch_bytes=max(1, round(case.epoch_bytes * scale)),
    )


def cost(unit: str) -> Figure:
    """CPU seconds of a million messages, or of a gigabyte, of a lane beyond its start; all of the ceiling's count."""

    def found(run: Mapping[str, Any]) -> float | None:
        a_million = cpu(run) if run["system"] == CEILING else cpu_after_start(run)
        if a_million is None or unit == "message":
            return a_million
        return a_million * run["messages"] / run["value_bytes"] * 1000

    return found


def growth(name: str, sizes: Sequence[tuple[Group, Group | None]]) -> Goal:
    """The goal of an axis: the pair of sizes that is nearest to its limit, or exceeds it the most; not judged unless
    all runs are right. `sizes`: lane and ceiling of each, the smallest first; no ceiling: not measured."""
    unit = AXES[name].unit
    figure = cost(unit)
    what = f"CPU a {unit} at a larger size to that at a smaller one: {name}"
    costs = [(lane.judged(figure, 6), ceiling.judged(figure, 6) if ceiling else 0.0) for lane, ceiling in sizes]
    known = [(lane, alone) for lane, alone in costs if lane is not None and alone is not None]
    if len(known) < max(2, len(costs)):
        return Goal(what, LIMIT, None, "times")
    pairs = [
        (round(after / before, 3), _limit(alone_before, alone_after, after))
        for (before, alone_before), (after, alone_after) in combinations(known, 2)
    ]
    found, limit = max(pairs, key=lambda pair: pair[0] / pair[1])
    return Goal(what, limit, found, "times")


def _limit(before: float, after: float, lane: float) -> float:
    """LIMIT, or by how much the ceiling's cost grows, if it is below the lane's. 0: there is no ceiling."""
    if not before or not after or after > lane:
        return LIMIT
    return max(LIMIT, round(after / before, 3))


def memory(lanes: Sequence[Group]) -> list[Goal]:
    """Goals for peak memory with rows of 100 KB; empty if they were not measured."""
    long = next((one for one in lanes if one.get("row_bytes") == LONG_ROWS), None)
    if long is None:
        return []
    limits = {"driver": EPOCHS_LIMIT, "tasks": EPOCHS_LIMIT, "jvm": JVM_LIMIT}
    peaks = {part: max(long.all_of(of_field("peak_megabytes", part)), default=None) for part in limits}
    return [
        Goal(f"peak memory with rows of 100 KB: {part}", limit, peaks[part], "MB") for part, limit in limits.items()
    ]
