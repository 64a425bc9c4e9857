"""Epochs that end in the midst of a changed key.

Debezium writes a changed key as a delete, a tombstone and an insert, which nothing comes between. Where Spark plans an
epoch's end there, the delete has to wait for the insert: alone it would take the row's children and its large values.
A header of the delete says that the insert will come.
"""

from collections.abc import Callable, Collection

import numpy as np
import pyarrow as pa

from app.errors import EnvironmentMissing, Unreachable
from app.kafka.broker import RawMessage
from app.model.offsets import Position, TopicPartition
from app.model.rows import Kind, Layout, is_of

#: the name that Debezium gives it (RelationalChangeRecordEmitter.PK_UPDATE_NEWKEY_FIELD)
NEW_KEY_HEADER = "__debezium.newkey"
#: the delete and its tombstone
_LAST = 2


def halves_from(
    rows: pa.Table, partitions: Collection[TopicPartition], message: Callable[[Position], RawMessage | None]
) -> dict[TopicPartition, int]:
    """Offset of the delete, in each partition whose last message is one, or its tombstone, of a key that changes.

    `rows` as in `app.model.rows`, in any order; `message` is asked for deletes only.
    """
    found: dict[TopicPartition, int] = {}
    for tp in partitions:
        offset = _last_delete(rows if len(partitions) == 1 else rows.filter(is_of(rows, tp)))
        told = None if offset is None else _read_again(message, Position(*tp, offset))
        if offset is not None and told is not None and any(name == NEW_KEY_HEADER for name, _ in told.headers):
            found[tp] = offset
    return found


def _read_again(message: Callable[[Position], RawMessage | None], position: Position) -> RawMessage | None:
    """It was there a moment ago: a broker that does not know it is one that has just come back."""
    try:
        return message(position)
    except EnvironmentMissing as error:
        raise Unreachable(f"{position} cannot be read again: {error.message}", hint=error.hint) from error


def _last_delete(rows: pa.Table) -> int | None:
    """Offset of the last message; of the one before it where that is a tombstone."""
    offsets = rows["offset"].to_numpy()
    last = np.argpartition(offsets, -_LAST)[-_LAST:] if len(offsets) > _LAST else np.arange(len(offsets))
    for at in sorted(last.tolist(), key=offsets.__getitem__, reverse=True):
        kind = Layout.parse(rows["layout"][at].as_py()).kind
        if kind is Kind.DELETE:
            return int(offsets[at])
        if kind is not Kind.FILTERED:
            break
    return None
