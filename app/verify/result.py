"""What a comparison finds."""

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
    """A column in which two rows differ; None for NULL. Not shown: both are None, and `hidden`."""

    column: str
    target: str | None
    other: str | None
    hidden: bool = False


@dataclass(frozen=True)
class Difference:
    """One key."""

    key: Key
    kind: DifferenceKind
    #: of a differing one
    values: tuple[Values, ...] = ()


@dataclass(kw_only=True)
class TableResult:
    """One table at both sides."""

    pair: Pair
    target_rows: int = 0
    other_rows: int = 0
    counts: dict[DifferenceKind, int] = field(default_factory=lambda: dict.fromkeys(DifferenceKind, 0))
    #: the first of them, in the order of their ranges
    differences: list[Difference] = field(default_factory=list)
    #: by an earlier call that this one goes on with; None: by this one
    compared_at: datetime.datetime | None = None

    @property
    def differing(self) -> int:
        """Keys that are not the same."""
        return sum(self.counts.values())

    @property
    def is_complete(self) -> bool:
        """Whether every difference is known by its key."""
        return self.differing == len(self.differences)

    def add(self, found: Difference, keep: int) -> None:
        """Count it, and keep it if there is room."""
        self.counts[found.kind] += 1
        if len(self.differences) < keep:
            self.differences.append(found)


def difference(pair: Pair, key: Key, target: Row | None, other: Row | None) -> Difference | None:
    """What there is between two rows of a key; None: nothing."""
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
