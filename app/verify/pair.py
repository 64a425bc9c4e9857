"""A pair of tables to compare, and their columns."""

from dataclasses import dataclass
from functools import cached_property

from app.apply.target_tables import Column, TargetTable
from app.db.sql import literal, quoted

#: types that every server orders alike, so that an index can be used; all others are ordered by their text's bytes
_ORDERED_ALIKE = frozenset(
    {
        *("oid", "uuid", "date", "numeric", "bytea", "timestamp without time zone", "timestamp with time zone"),
        "time without time zone",
    }
)
_INTEGERS = frozenset({"smallint", "integer", "bigint"})
_BYTES = ' collate "C"'


@dataclass(frozen=True)
class KeyColumn:
    """A key column of one side, as SQL that gives the same order on both sides."""

    name: str
    #: type whose order is used; None: the order of the text's bytes
    type: str | None
    #: whether it may be NULL on this side
    nullable: bool = False

    @property
    def value(self) -> str:
        """Expression for comparisons with literals; an index can be used where it is the bare column."""
        return f"{quoted(self.name)}::text{_BYTES}" if self.type is None else quoted(self.name)

    @property
    def ordered(self) -> str:
        """Expression for cutting into ranges, of the same type on both sides."""
        return self.value if self.type is None else f"{quoted(self.name)}::{self.type}"

    @property
    def same(self) -> str:
        """Expression for equality."""
        return f"{quoted(self.name)}::text" if self.type is None else quoted(self.name)

    def literal(self, text: str) -> str:
        """A value as SQL, of the column's type."""
        return literal(text) if self.type is None else f"{literal(text)}::{self.type}"

    def literals(self, texts: list[str]) -> str:
        """An array of values as SQL."""
        return f"array[{', '.join(map(literal, texts))}]::{self.type or 'text'}[]"


@dataclass(frozen=True)
class Half:
    """One side's table of a pair."""

    table: str
    #: in the order of the pair's key
    key: tuple[KeyColumn, ...]
    columns: tuple[str, ...]
    #: condition for the rows that are compared
    only: str = "true"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A table of the target, and the table of the other database that it should be equal to."""

    target: TargetTable
    other: TargetTable
    #: (name in the target, name on the other side) of the columns that both have, including the key
    columns: tuple[tuple[str, str], ...]
    #: names in the target
    key: tuple[str, ...]
    #: names in the target of columns whose values are redacted
    hidden: frozenset[str] = frozenset()
    #: columns of either side that are not compared
    left_out: tuple[str, ...] = ()
    #: column of the target, and of a copy of it, that marks deleted rows; None: they are gone
    soft_delete: str | None = None

    @cached_property
    def halves(self) -> tuple[Half, Half]:
        """The target's table, and the other side's."""
        names = dict(self.columns)
        types = [_order(self.target.by_name[name], self.other.by_name[names[name]]) for name in self.key]
        sides = ((self.target, {name: name for name in names}), (self.other, names))
        target, other = (
            Half(
                table.quoted_name,
                tuple(
                    KeyColumn(here[name], type_, here[name] not in table.key)
                    for name, type_ in zip(self.key, types, strict=True)
                ),
                tuple(here[name] for name, _ in self.columns),
                self._only(table),
            )
            for table, here in sides
        )
        return target, other

    def _only(self, table: TargetTable) -> str:
        """Rows that are marked as deleted count as absent."""
        column = self.soft_delete
        return "true" if column is None or column not in table.by_name else f"{quoted(column)} is null"

    def __str__(self) -> str:
        return str(self.target)


def _order(one: Column, other: Column) -> str | None:
    """The type whose order both sides use for a column; None: the order of the text's bytes."""
    if one.base in _INTEGERS and other.base in _INTEGERS:
        return "bigint"
    return one.base if one.base == other.base and one.base in _ORDERED_ALIKE else None
