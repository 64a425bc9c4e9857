"""What a decoded line is: a value of the column `layout` of `app.model.rows`.

Without Arrow: commands that read Surelane's own tables start without it.
"""

import enum
from dataclasses import dataclass
from typing import Self

#: separates the parts of a layout; no name contains it
SEPARATOR = "\x1f"


class RowKind(enum.StrEnum):
    """The change that a message requires."""

    UPSERT = "upsert"  #: op c, u, r: the whole row after the change
    PATCH = "patch"  #: op u without unchanged TOAST values: the other columns of the row
    DELETE = "delete"  #: op d: the row's key
    TRUNCATE = "truncate"  #: op t
    FILTERED = "filtered"  #: tombstone, heartbeat, transaction marker, schema change, logical message
    MALFORMED = "malformed"  #: not JSON, not UTF-8 or not a Debezium message; `schema` has which
    FAILED = "failed"  #: the user's transform raised; `line` has the error
    UNFIT = "unfit"  #: the user's SQL names columns that the message lacks; the layout has them
    KEYLESS = "keyless"  #: op d without key and without before image: replica identity nothing


@dataclass(frozen=True)
class Layout:
    """Describes decoded lines; an epoch of any size has few layouts."""

    kind: RowKind
    #: hash of the message's schema envelope; "" without one
    schema_hash: str
    schema: str
    table: str
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """From a value of the `layout` column."""
        kind, schema_hash, schema, table, *columns = text.split(SEPARATOR)
        return cls(RowKind(kind), schema_hash, schema, table, tuple(columns))

    @property
    def text(self) -> str:
        """The value in the `layout` column."""
        return SEPARATOR.join([self.kind, self.schema_hash, self.schema, self.table, *self.columns])

    @property
    def source(self) -> str:
        """`schema.table` at the source, for messages."""
        return f"{self.schema}.{self.table}"
