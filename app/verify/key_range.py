"""A part of a table: an interval for each column of its key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from app.verify.pair import KeyColumn


@dataclass(frozen=True)
class Interval:
    """Values from `low` on and below `high`, as text; None: without an end."""

    low: str | None = None
    high: str | None = None

    def where(self, column: KeyColumn) -> list[str]:
        """Conditions."""
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
        """The whole table."""
        return cls((Interval(),) * columns)

    def where(self, key: Sequence[KeyColumn]) -> str:
        """The condition as SQL."""
        each = zip(self.intervals, key, strict=True)
        return " and ".join(part for interval, column in each for part in interval.where(column)) or "true"

    def cut(self, at: int, bounds: Sequence[str]) -> list["KeyRange"]:
        """Parts of it by column number `at`, in order: one more than there are bounds."""
        own = self.intervals[at]
        ends = [own.low, *bounds, own.high]
        pieces = [Interval(low, high) for low, high in pairwise(ends)]
        before, behind = self.intervals[:at], self.intervals[at + 1 :]
        return [replace(self, intervals=(*before, piece, *behind)) for piece in pieces]
