"""A decoded epoch: the Arrow table that decoding passes to the lane.

One row for each Kafka message, in no particular order:

    topic      string   with partition and offset: the position
    partition  int32
    offset     int64
    layout     string   kind, schema hash, source schema, source table, column names; joined by SEPARATOR
    key        string   the message key as text, equal for equal primary keys; null if the message has none
    line       string   COPY text line (tab separated, `\\N`, ends in a newline) of the columns in `layout`; "" if none
    ts_ms      int64    source commit time, milliseconds since 1970, 0 to MOST_TS_MS; null if the message has none
    sequence   string   Debezium's source.sequence, `["commit lsn before", "lsn"]`; null if none
    is_read    bool     whether it is a row of a snapshot, with all values; null for messages that are no change
    transaction struct  the source transaction; null for a message without one, or where it is not requested:
        id      string  equal for all its messages
        place   int64   ordinal of a change in the transaction, from 1; null for its markers
        parts   string  only for the end marker: Debezium's `data_collections`, number of changes of each table
"""

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa

from app.model.arrow import compute
from app.model.offsets import TopicPartition

#: largest source commit time in milliseconds since 1970: the end of the year 9999. A larger value is no time
#: (microseconds in a field of milliseconds, for example), and the row is decoded without one
MOST_TS_MS = 253_402_300_799_999
#: Debezium's `source.sequence`, `["commit lsn before", "lsn"]`; an unknown part is null. 18 digits always fit into a
#: signed 64-bit integer, by which they are sorted
SEQUENCE = r'^\s*\[\s*(?:"(?P<commit>\d{1,18})"|null)\s*,\s*(?:"(?P<lsn>\d{1,18})"|null)\s*\]\s*$'

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
    """Whether each row is of this partition."""
    return compute.and_(compute.equal(rows["topic"], tp.topic), compute.equal(rows["partition"], tp.partition))


def is_behind(rows: pa.Table, firsts: Mapping[TopicPartition, int]) -> pa.ChunkedArray:
    """Whether each row is of a partition in `firsts`, at that offset or behind it; `firsts` is not empty."""
    each = (
        compute.and_(compute.equal(rows["topic"], tp.topic), compute.greater_equal(rows["offset"], first))
        for tp, first in firsts.items()
    )
    return reduce(compute.or_, each)
