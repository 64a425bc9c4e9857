"""Results of a comparison."""

import datetime
import enum
from dataclasses import dataclass, field

from app.verify.pair import Pair
from app.verify.side import Key, Row


class DifferenceKind(enum.StrEnum):
    """How a key differs, as seen from the target."""

    MISSING = "missing"  #: the other database has it, the target has not
    SURPLUS = "surplus"  #: the target has it, the other database has not
    DIFFERING = "differing"  #: both have it, with other values


@dataclass(frozen=True)
class Values:
    """A column in which two rows differ; None for NULL. A hidden column has None twice."""

    column: str
    target: str | None
    other: str | None
    hidden: bool = False


@dataclass(frozen=True)
class Difference:
    """A key that differs."""

    key: Key
    kind: DifferenceKind
    #: the differing columns of a key that both sides have
    values: tuple[Values, ...] = ()


@dataclass(kw_only=True)
class TableResult:
    """The result of one pair of tables."""

    pair: Pair
    target_rows: int = 0
    other_rows: int = 0
    counts: dict[DifferenceKind, int] = field(default_factory=lambda: dict.fromkeys(DifferenceKind, 0))
    #: the first differences, in the order of their ranges
    differences: list[Difference] = field(default_factory=list)
    #: when an earlier call compared the table; None: this call did
    compared_at: datetime.datetime | None = None

    @property
    def differing(self) -> int:
        """Number of keys that differ."""
        return sum(self.counts.values())

    @property
    def is_complete(self) -> bool:
        """Whether every difference is kept with its key."""
        return self.differing == len(self.differences)

    def add(self, found: Difference, keep: int) -> None:
        """Count a difference, and keep it if fewer than `keep` are kept."""
        self.counts[found.kind] += 1
        if len(self.differences) < keep:
            self.differences.append(found)


def difference(pair: Pair, key: Key, target: Row | None, other: Row | None) -> Difference | None:
    """The difference between two rows of a key; None: they are equal."""
    if target is None:
        return Difference(key, DifferenceKind.MISSING)
    if other is None:
        return Difference(key, DifferenceKind.SURPLUS)
    values = tuple(
        Values(name, target.shown[at], other.shown[at], name in pair.hidden)
        for at, (name, _) in enumerate(pair.columns)
        if target.hashes[at] != other.hashes[at]
    )
    return Difference(key, DifferenceKind.DIFFERING, values) if values else None
