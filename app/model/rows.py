"""The decoded epoch: the Arrow table that decoding hands to the lane.

One row for each Kafka message, in no particular order:

    topic      string   only meaningful together with partition and offset
    partition  int32
    offset     int64
    layout     string   kind, schema hash, source schema, source table, column names; joined by SEPARATOR
    key        string   the message key as text; equal for equal primary keys; null if the message had none
    line       string   COPY text line (tab separated, `\\N`, ends in a newline) of the columns in `layout`; "" if none
    ts_ms      int64    source commit time, milliseconds since 1970, 0 to MOST_TS_MS; null if the message carries none
    sequence   string   Debezium's source.sequence, `["commit lsn before", "lsn"]`; null if none
    is_read    bool     whether it is a row of a snapshot, which has every value; null for messages that are no change
    transaction struct  the source transaction it is of; null for a message of none, or where nobody asks for them:
        id      string  equal for all its messages
        place   int64   place of a change among its changes, 1 the first; null for its markers
        parts   string  of the marker of its end: Debezium's `data_collections`, how many changes each table has
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Self

import pyarrow as pa

from app.model.arrow import compute
from app.model.offsets import TopicPartition

#: milliseconds since 1970 that a source commit time may be: up to the end of the year 9999. What is beyond is no time
#: (microseconds in a field of milliseconds, say), and the row is decoded without one
MOST_TS_MS = 253_402_300_799_999
#: Debezium's `source.sequence`, `["commit lsn before", "lsn"]`; a part that is not known is null. 18 digits always fit
#: into 64 bits with a sign, which is how they are sorted
SEQUENCE = r'^\s*\[\s*(?:"(?P<commit>\d{1,18})"|null)\s*,\s*(?:"(?P<lsn>\d{1,18})"|null)\s*\]\s*$'
#: between the parts of a layout; not a character that names have
SEPARATOR = "\x1f"

_TEXTS = ("layout", "key", "line")
TRANSACTION = pa.struct([("id", pa.string()), ("place", pa.int64()), ("parts", pa.string())])
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        *((name, pa.string()) for name in _TEXTS),
        ("ts_ms", pa.int64()),
        ("sequence", pa.string()),
        ("is_read", pa.bool_()),
        ("transaction", TRANSACTION),
    ]
)
COLUMNS = tuple(SCHEMA.names)
NO_ROWS = SCHEMA.empty_table()


def is_of(rows: pa.Table, tp: TopicPartition) -> pa.ChunkedArray:
    """For each row whether it is of this partition."""
    return compute.and_(compute.equal(rows["topic"], tp.topic), compute.equal(rows["partition"], tp.partition))


def is_behind(rows: pa.Table, firsts: Mapping[TopicPartition, int]) -> pa.ChunkedArray:
    """For each row whether its offset is one of these topics' first ones or behind it; `firsts` is not empty."""
    each = (
        compute.and_(compute.equal(rows["topic"], tp.topic), compute.greater_equal(rows["offset"], first))
        for tp, first in firsts.items()
    )
    return reduce(compute.or_, each)


class RowKind(enum.StrEnum):
    """What a message asks for."""

    UPSERT = "upsert"  #: op c, u, r: the whole row after the change
    PATCH = "patch"  #: op u that leaves large values as they are: the other columns of the row
    DELETE = "delete"  #: op d: the row's key
    TRUNCATE = "truncate"  #: op t
    FILTERED = "filtered"  #: tombstone, heartbeat, transaction marker, schema change, logical message
    MALFORMED = "malformed"  #: not JSON, not UTF-8 or not a Debezium message; `schema` says which
    FAILED = "failed"  #: the user's transform raised; `line` says what
    UNFIT = "unfit"  #: the user's SQL names columns that the message has not: those in the layout
    KEYLESS = "keyless"  #: op d without key and without before image: replica identity nothing


@dataclass(frozen=True)
class Layout:
    """What a decoded line contains; few of them in an epoch, whatever its size."""

    kind: RowKind
    #: hash of the message's schema envelope, "" without one
    schema_hash: str
    schema: str
    table: str
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """From the `layout` column."""
        kind, schema_hash, schema, table, *columns = text.split(SEPARATOR)
        return cls(RowKind(kind), schema_hash, schema, table, tuple(columns))

    @property
    def text(self) -> str:
        """As in the `layout` column."""
        return SEPARATOR.join([self.kind, self.schema_hash, self.schema, self.table, *self.columns])

    @property
    def source(self) -> str:
        """`schema.table` at the source, for people."""
        return f"{self.schema}.{self.table}"
