"""Keeps epochs from ending inside a key change.

Debezium writes a key change as a delete, a tombstone and an insert, with nothing between them. Where Spark plans an
epoch's end there, the delete is held until the insert comes: alone it would remove the row's children and lose its
large values. A header of the delete announces the insert.
"""

from collections.abc import Callable, Collection

import pyarrow as pa

from app.align.last_delete import last_delete
from app.errors import EnvironmentMissing, Unreachable
from app.model.message import RawMessage
from app.model.offsets import Position, TopicPartition
from app.model.rows import is_of

#: header name of Debezium (RelationalChangeRecordEmitter.PK_UPDATE_NEWKEY_FIELD)
NEW_KEY_HEADER = "__debezium.newkey"


def halves_from(
    rows: pa.Table, partitions: Collection[TopicPartition], message: Callable[[Position], RawMessage | None]
) -> dict[TopicPartition, int]:
    """Offset of the delete, in each partition that ends with the delete of a key change or its tombstone.

    `rows` as in `app.model.rows`, in any order; `message` is called for deletes only.
    """
    parts = {tp: rows if len(partitions) == 1 else rows.filter(is_of(rows, tp)) for tp in partitions}
    ends = [Position(*tp, offset) for tp, part in parts.items() if (offset := last_delete(part)) is not None]
    return {position.tp: position.offset for position in ends if is_half(position, message)}


def is_half(delete: Position, message: Callable[[Position], RawMessage | None]) -> bool:
    """Whether the insert of a new key follows this delete."""
    found = _read_again(message, delete)
    return found is not None and any(name == NEW_KEY_HEADER for name, _ in found.headers)


def _read_again(message: Callable[[Position], RawMessage | None], position: Position) -> RawMessage | None:
    """Read a message that was there a moment ago: a broker that does not know it has just come back, so that is
    Unreachable."""
    try:
        return message(position)
    except EnvironmentMissing as error:
        raise Unreachable(f"{position} cannot be read again: {error.message}", hint=error.hint) from error
