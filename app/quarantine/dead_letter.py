"""Dead letters: copies of quarantined messages for a Kafka topic, with the headers of Kafka Connect's dead letters.

The table is the outbox: an entry is unsent until `dead_lettered_at` is set. Entries of an uncommitted epoch are not
visible, so they are not sent. A lane writes its entries epoch by epoch, so their ids are in the lane's order.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from app.config.redaction import Redaction
from app.model.message import RawMessage
from app.poison.guard_tables import GuardTables
from app.quarantine.quarantine import EntryState, raw_message
from app.quarantine.redacted_text import error_text

#: Connect's names (org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter)
PREFIX = "__connect.errors."
#: Surelane's header: the id that `surelane quarantine show` takes
ENTRY = "__surelane.quarantine.id"
#: Connect's names for our stages (org.apache.kafka.connect.runtime.errors.Stage)
STAGES = {"decode": "VALUE_CONVERTER", "transform": "TRANSFORMATION"}
PUT = "TASK_PUT"
#: class and text for a parked message, which has no error
PARKED = ("Parked", "an earlier message of its key is in quarantine")


@dataclass(frozen=True, kw_only=True)
class Letter:
    """One entry, ready to be sent."""

    id: int
    message: RawMessage


class Outbox:
    """Unsent entries of `lane`; methods work in the caller's transaction."""

    def __init__(self, schema: str, lane: str, redaction: Redaction) -> None:
        self._table, self._lane, self._redaction = GuardTables.in_schema(schema).quarantine, lane, redaction

    def unsent(self, connection: Connection, but: Collection[int], limit: int) -> list[Letter]:
        """The oldest unsent entries in any state, except the ids in `but`."""
        table = self._table
        statement = select(table).where(*self._is_unsent(), table.c.id.not_in(but)).order_by(table.c.id).limit(limit)
        return [letter(row, self._redaction) for row in connection.execute(statement)]

    def count(self, connection: Connection) -> int:
        return connection.execute(select(func.count()).select_from(self._table).where(*self._is_unsent())).scalar_one()

    def mark(self, connection: Connection, entries: Collection[int]) -> set[int]:
        """Mark entries as sent and return the ids marked. Entries that an epoch's transaction has locked are left for
        later: waiting could take as long as the epoch is in doubt."""
        table = self._table
        free = select(table.c.id).where(table.c.lane == self._lane, table.c.id.in_(entries)).order_by(table.c.id)
        locked = free.with_for_update(skip_locked=True, key_share=True).cte()
        statement = update(table).where(table.c.id.in_(select(locked.c.id)))
        done = statement.values(dead_lettered_at=func.clock_timestamp()).returning(table.c.id)
        return set(connection.execute(done).scalars())

    def _is_unsent(self) -> Any:
        return self._table.c.lane == self._lane, self._table.c.dead_lettered_at.is_(None)


def letter(row: Row[Any], redaction: Redaction) -> Letter:
    """An entry's message with its headers, plus headers for its position and error."""
    message = raw_message(row)
    more = tuple((name, text.encode()) for name, text in _context(row, redaction).items())
    return Letter(id=row.id, message=replace(message, headers=(*message.headers, *more)))


def _context(row: Row[Any], redaction: Redaction) -> dict[str, str]:
    parked = row.stage is None and row.error is None
    columns = redaction.columns(row.source_schema, row.source_table)
    error = error_text(row.error or "", columns, row.key, row.value)
    kind, words = PARKED if parked else (row.error_class or "", error)
    return {
        f"{PREFIX}topic": row.topic,
        f"{PREFIX}partition": str(row.partition),
        f"{PREFIX}offset": str(row.offset),
        f"{PREFIX}connector.name": row.lane,
        f"{PREFIX}task.id": "0",
        f"{PREFIX}stage": STAGES.get(str(row.stage), PUT),
        f"{PREFIX}class.name": f"surelane.{EntryState.PARKED.value if parked else row.stage}",
        f"{PREFIX}exception.class.name": kind,
        f"{PREFIX}exception.message": words,
        f"{PREFIX}exception.stacktrace": f"{kind}: {words}\n",
        ENTRY: str(row.id),
    }
