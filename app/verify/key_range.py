"""A range of keys: an interval for each column of the key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from app.verify.pair import KeyColumn


@dataclass(frozen=True)
class Interval:
    """Values from `low` (inclusive) to `high` (exclusive), as text; None: unbounded."""

    low: str | None = None
    high: str | None = None

    def where(self, column: KeyColumn) -> list[str]:
        """SQL conditions, to be joined by `and`."""
        found: list[str] = []
        if self.low is not None:
            found.append(f"{column.value} >= {column.literal(self.low)}")
        if self.high is not None:
            below = f"{column.value} < {column.literal(self.high)}"
            counts_null = self.low is None and column.nullable
            found.append(f"({below} or {column.value} is null)" if counts_null else below)
        return found


@dataclass(frozen=True)
class KeyRange:
    """Intervals in the order of the key's columns."""

    intervals: tuple[Interval, ...]

    @classmethod
    def whole(cls, columns: int) -> "KeyRange":
        """The range of all keys of a table."""
        return cls((Interval(),) * columns)

    def where(self, key: Sequence[KeyColumn]) -> str:
        """The range as an SQL condition."""
        each = zip(self.intervals, key, strict=True)
        return " and ".join(part for interval, column in each for part in interval.where(column)) or "true"

    def cut(self, at: int, bounds: Sequence[str]) -> list["KeyRange"]:
        """Cut the range at `bounds` of key column number `at`; returns one part more than bounds, in order."""
        own = self.intervals[at]
        ends = [own.low, *bounds, own.high]
        pieces = [Interval(low, high) for low, high in pairwise(ends)]
        before, behind = self.intervals[:at], self.intervals[at + 1 :]
        return [replace(self, intervals=(*before, piece, *behind)) for piece in pieces]
