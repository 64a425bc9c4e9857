"""Epochs that end in the midst of a changed key.

Debezium writes a changed key as a delete, a tombstone and an insert, which nothing comes between. Where Spark plans an
epoch's end there, the delete has to wait for the insert: alone it would take the row's children and its large values.
A header of the delete says that the insert will come.
"""

from collections.abc import Callable, Collection

import pyarrow as pa

from app.align.last_delete import last_delete
from app.errors import EnvironmentMissing, Unreachable
from app.model.message import RawMessage
from app.model.offsets import Position, TopicPartition
from app.model.rows import is_of

#: the name that Debezium gives it (RelationalChangeRecordEmitter.PK_UPDATE_NEWKEY_FIELD)
NEW_KEY_HEADER = "__debezium.newkey"


def halves_from(
    rows: pa.Table, partitions: Collection[TopicPartition], message: Callable[[Position], RawMessage | None]
) -> dict[TopicPartition, int]:
    """Offset of the delete, in each partition whose last message is one, or its tombstone, of a key that changes.

    `rows` as in `app.model.rows`, in any order; `message` is asked for deletes only.
    """
    parts = {tp: rows if len(partitions) == 1 else rows.filter(is_of(rows, tp)) for tp in partitions}
    ends = [Position(*tp, offset) for tp, part in parts.items() if (offset := last_delete(part)) is not None]
    return {position.tp: position.offset for position in ends if is_half(position, message)}


def is_half(delete: Position, message: Callable[[Position], RawMessage | None]) -> bool:
    """Whether the insert of a new key comes after this delete."""
    told = _read_again(message, delete)
    return told is not None and any(name == NEW_KEY_HEADER for name, _ in told.headers)


def _read_again(message: Callable[[Position], RawMessage | None], position: Position) -> RawMessage | None:
    """It was there a moment ago: a broker that does not know it is one that has just come back."""
    try:
        return message(position)
    except EnvironmentMissing as error:
        raise Unreachable(f"{position} cannot be read again: {error.message}", hint=error.hint) from error
