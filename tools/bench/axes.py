"""The axes: each varies one dimension around one base. Equal cases of several axes are measured once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app.config.settings import EpochSettings
from tools.bench.workload import Shape, as_many_bytes, bytes_each

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
    )
