"""The axes: each varies one dimension around one base. Equal cases of several axes are measured once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from app.config.settings import EpochSettings
from tools.bench.shape import Shape
from tools.bench.workload import as_many_bytes, bytes_each

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


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One dimension with its cases."""

    name: str
    #: unit whose cost should stay constant: message or byte
    unit: str
    #: size -> case
    cases: dict[int, Case]
    #: whether the rows that the server writes differ by size, so that the ceiling is measured, too
    has_ceiling: bool


def axes(names: Sequence[str], scale: float = 1.0) -> Iterator[Axis]:
    """The axes with these names; `scale` reduces all sizes, epochs included. Sizes that become equal by scaling are
    merged."""
    for name in names:
        unit, has_ceiling, cases = _AXES[name]
        scaled = [(size, _scaled(case, scale)) for size, case in cases().items()]
        called = {"messages": lambda case: case.messages, "epoch-messages": lambda case: case.epoch}.get(name)
        by_size = {called(case) if called else size: case for size, case in scaled}
        yield Axis(name=name, unit=unit, cases=by_size, has_ceiling=has_ceiling)


def base(scale: float = 1.0) -> Case:
    """The base case, scaled."""
    return _scaled(_BASE, scale)


_BASE = Case(shape=Shape(most_rows=BASE_ROWS), messages=BASE_MESSAGES, epoch=BASE_EPOCH)


def _messages() -> dict[int, Case]:
    return {n: replace(_BASE, messages=n) for n in (1_000_000, 3_000_000, 10_000_000)}


def _tables() -> dict[int, Case]:
    return {n: _like(tables=n) for n in (1, 10, 100)}


def _columns() -> dict[int, Case]:
    return {n: _like(columns=n) for n in (5, 20, 50, 100, 200)}


def _whole_columns() -> dict[int, Case]:
    return {n: _like(columns=n, is_whole=True) for n in (50, 100, 200)}


def _row_bytes() -> dict[int, Case]:
    return {n: _like(row_bytes=n) for n in (100, 1000, 10_000, 100_000)}


def _epoch_messages() -> dict[int, Case]:
    short = {100: replace(_BASE, epoch=100, messages=20_000), 1000: replace(_BASE, epoch=1000, messages=200_000)}
    # limited by messages, not by bytes
    large = replace(_BASE, epoch=500_000, messages=3_000_000, epoch_bytes=8 * BASE_EPOCH_BYTES)
    return {**short, 10_000: replace(_BASE, epoch=10_000), BASE_EPOCH: _BASE, 500_000: large}


#: unit whose cost should stay constant; whether there is a ceiling; cases by size
_AXES: dict[str, tuple[str, bool, Callable[[], dict[int, Case]]]] = {
    "messages": ("message", False, _messages),
    "tables": ("message", True, _tables),
    "columns": ("byte", True, _columns),
    "whole-columns": ("byte", True, _whole_columns),
    "row-bytes": ("byte", True, _row_bytes),
    "epoch-messages": ("message", False, _epoch_messages),
}
NAMES = tuple(_AXES)


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
