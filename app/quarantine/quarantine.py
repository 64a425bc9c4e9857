"""The quarantine of one lane, as the lane uses it: keeps skipped messages whole, and gives those to be released.

Every method works in the caller's transaction and never ends it, so an entry is visible exactly when the ledger row of
its epoch is. The database enforces the states and the steps between them (triggers in migrations/): it refuses a wrong
step of any client.
"""

import base64
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from app.errors import Verdict
from app.model.message import RawMessage
from app.model.offsets import Position, TopicPartition
from app.poison.guard_tables import GuardTables
from app.poison.storable_text import storable

#: entries released at one time; their messages are in memory together
RELEASES_AT_ONCE = 100


class EntryState(enum.StrEnum):
    """The state of a skipped message."""

    QUARANTINED = "quarantined"  #: it could not be applied
    PARKED = "parked"  #: it follows a message of its key that could not be applied
    RELEASED = "released"  #: it was applied after all
    DISCARDED = "discarded"  #: an operator gave it up
    SUPERSEDED = "superseded"  #: a newer change of its key was applied


#: states that wait for a release, a discard or a newer change
OPEN = (EntryState.QUARANTINED, EntryState.PARKED)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A message to be kept. The fields of the failure are None or 0 for one that was parked without an attempt."""

    message: RawMessage
    #: QUARANTINED or PARKED
    state: EntryState
    #: the source's schema and table; None if the message could not be decoded
    schema: str | None
    table: str | None
    #: the key in the form in which the lane compares keys
    key_text: str | None
    #: a value of `app.poison.attempts.AttemptStage`, DECODE in place of MESSAGE
    stage: str | None = None
    verdict: Verdict | None = None
    error_class: str | None = None
    #: redacted by `app.quarantine.redacted_text.error_text`
    error: str | None = None
    sqlstate: str | None = None
    attempts: int = 0
    #: failures while this message was in progress by itself
    alone: int = 0


@dataclass(frozen=True, kw_only=True)
class OpenEntry:
    """An open entry without its message."""

    id: int
    state: EntryState
    schema: str | None
    table: str | None
    key_text: str | None
    position: Position


@dataclass(frozen=True, kw_only=True)
class Release:
    """An entry whose release an operator requested."""

    held: OpenEntry
    message: RawMessage
    #: apply it even after a newer change of its key
    forced: bool


@dataclass(frozen=True, kw_only=True)
class Skip:
    """Position, state and table of an entry, open or closed."""

    position: Position
    state: EntryState
    #: schema.table of the source; None: not known
    table: str | None


@dataclass(frozen=True, kw_only=True)
class ParkedEntries:
    """Open entries of one source table."""

    #: None: not known, the messages could not be decoded
    schema: str | None
    table: str | None
    quarantined: int
    parked: int
    #: number of distinct known keys
    keys: int


class Quarantine:
    """The quarantine of `lane` in the schema `schema`."""

    def __init__(self, schema: str, lane: str) -> None:
        self.lane = lane
        self._tables = GuardTables.in_schema(schema)

    def add(self, connection: Connection, generation: int, epoch: int, entries: Iterable[Entry]) -> list[OpenEntry]:
        """Insert entries and return those that are open. An open entry that exists already (the epoch is applied again)
        keeps its content and takes the larger counts."""
        table, kept = self._tables.quarantine, []
        for entry in entries:  # one at a time: a statement with many large messages could become too long
            news = {"generation": generation, "epoch": epoch}
            statement = insert(table).values(lane=self.lane, **_counts(entry), **_values(entry), **news)
            statement = statement.on_conflict_do_update(
                index_elements=["lane", "topic", "partition", "offset"],
                set_={**news, **{name: func.greatest(table.c[name], count) for name, count in _counts(entry).items()}},
                where=self._is_open(),
            )
            row = connection.execute(statement.returning(*(table.c[name] for name in _HELD))).first()
            if row is not None:  # else the entry is closed
                kept.append(_held(row))
        return kept

    def held(self, connection: Connection) -> list[OpenEntry]:
        """Every open entry, in order of position."""
        rows = connection.execute(self._in_order(_HELD).where(self._is_open()))
        return [_held(row) for row in rows]

    def skips(self, connection: Connection) -> list[Skip]:
        """Every entry, in order of position."""
        columns = ("topic", "partition", "offset", "state", "source_schema", "source_table")
        return [
            Skip(
                position=_position(row),
                state=EntryState(row.state),
                table=f"{row.source_schema}.{row.source_table}" if row.source_table is not None else None,
            )
            for row in connection.execute(self._in_order(columns))
        ]

    def offsets_between(self, connection: Connection, tp: TopicPartition, first: int, end: int) -> set[int]:
        """Offsets from `first` (inclusive) to `end` (exclusive) that have an entry in any state."""
        table = self._tables.quarantine
        where = (table.c.lane == self.lane, table.c.topic == tp.topic, table.c.partition == tp.partition)
        offset = table.c.offset
        return set(connection.execute(select(offset).where(*where, offset >= first, offset < end)).scalars())

    def still_open(self, connection: Connection, entries: Iterable[int]) -> set[int]:
        """The ids among `entries` that are open. Locks them, so they stay open until this transaction ends."""
        table = self._tables.quarantine
        statement = select(table.c.id).where(table.c.lane == self.lane, table.c.id.in_(list(entries)), self._is_open())
        return set(connection.execute(statement.order_by(table.c.id).with_for_update(read=True)).scalars())

    def has_requests(self, connection: Connection) -> bool:
        """Whether an operator has requested a release."""
        statement = select(self._tables.quarantine.c.id).where(*self._is_requested()).limit(1)
        return connection.execute(statement).first() is not None

    def requested(self, connection: Connection) -> list[Release]:
        """At most RELEASES_AT_ONCE entries to be released, in order of position.

        Locks them until this transaction ends, so no operator discards one while it is applied.
        """
        statement = self._in_order((*_HELD, *_MESSAGE, "release_forced")).where(*self._is_requested())
        rows = connection.execute(statement.limit(RELEASES_AT_ONCE).with_for_update(key_share=True))
        return [Release(held=_held(row), message=raw_message(row), forced=row.release_forced) for row in rows]

    def request_parked(self, connection: Connection, schema: str, table: str, who: str) -> None:
        """Request the release of each parked message of a source table, also of those that were refused before."""
        columns = self._tables.quarantine.c
        where = (
            columns.lane == self.lane,
            columns.state == EntryState.PARKED,
            columns.source_schema == schema,
            columns.source_table == table,
            or_(columns.release_requested_at.is_(None), columns.release_refused.is_not(None)),
        )
        values = {"release_requested_at": func.clock_timestamp(), "release_requested_by": storable(who)}
        values |= {"release_refused": None}
        connection.execute(update(self._tables.quarantine).where(*where).values(values))

    def released(self, connection: Connection, entry: int) -> None:
        """Mark an entry whose message this transaction applies."""
        self._update(connection, [entry], state=EntryState.RELEASED)

    def refuse(self, connection: Connection, entry: int, why: str) -> None:
        """Leave the entry's state as it is and record for the operator `why` it was not released."""
        self._update(connection, [entry], release_refused=storable(why))

    def supersede(self, connection: Connection, entries: Sequence[int]) -> None:
        """Mark the open ones of these entries: this transaction applies newer changes of their keys. A requested
        release is refused on record, unless it is forced."""
        table = self._tables.quarantine
        waits = and_(table.c.release_requested_at.is_not(None), table.c.release_forced.is_(False))
        refused = case((waits, "a newer change of its key was applied"), else_=table.c.release_refused)
        self._update(connection, entries, self._is_open(), state=EntryState.SUPERSEDED, release_refused=refused)

    def since(self, connection: Connection, minutes: float) -> int:
        """Number of messages that were quarantined (not parked) within the last minutes, in any state now."""
        table, event = self._tables.quarantine, self._tables.event
        statement = (
            select(func.count())
            .select_from(event.join(table, event.c.id == table.c.id))
            .where(table.c.lane == self.lane, event.c.what == "kept", event.c.to_state == EntryState.QUARANTINED)
            .where(event.c.at >= func.clock_timestamp() - timedelta(minutes=minutes))
        )
        return connection.execute(statement).scalar_one()

    def waiting(self, connection: Connection) -> list[ParkedEntries]:
        """Counts of open entries by table."""
        table = self._tables.quarantine
        place = (table.c.source_schema, table.c.source_table)
        numbers = [func.count().filter(table.c.state == state) for state in OPEN]
        statement = select(*place, *numbers, func.count(table.c.key_text.distinct()))
        rows = connection.execute(statement.where(table.c.lane == self.lane, self._is_open()).group_by(*place))
        names = ("schema", "table", "quarantined", "parked", "keys")
        return [ParkedEntries(**dict(zip(names, row, strict=True))) for row in rows]

    def counts(self, connection: Connection) -> dict[EntryState, int]:
        """Counts of the lane's entries by state; each state is a key."""
        table = self._tables.quarantine
        statement = select(table.c.state, func.count()).where(table.c.lane == self.lane).group_by(table.c.state)
        return dict.fromkeys(EntryState, 0) | {
            EntryState(state): count for state, count in connection.execute(statement)
        }

    def _update(
        self, connection: Connection, entries: Sequence[int], *where: ColumnElement[bool], **values: object
    ) -> None:
        table = self._tables.quarantine
        statement = update(table).where(table.c.lane == self.lane, table.c.id.in_(entries), *where)
        connection.execute(statement.values(**values))

    def _is_requested(self) -> tuple[ColumnElement[bool], ...]:
        table = self._tables.quarantine
        allowed = or_(self._is_open(), and_(table.c.state == EntryState.SUPERSEDED, table.c.release_forced))
        mine = table.c.lane == self.lane
        return mine, allowed, table.c.release_requested_at.is_not(None), table.c.release_refused.is_(None)

    def _is_open(self) -> ColumnElement[bool]:
        return self._tables.quarantine.c.state.in_(OPEN)

    def _in_order(self, columns: Iterable[str]) -> Any:
        table = self._tables.quarantine
        place = (table.c.topic, table.c.partition, table.c.offset)
        return select(*(table.c[name] for name in columns)).where(table.c.lane == self.lane).order_by(*place)


_HELD = ("id", "state", "source_schema", "source_table", "key_text", "topic", "partition", "offset")
_MESSAGE = ("key", "value", "headers", "timestamp_ms")


def raw_message(row: Row[Any]) -> RawMessage:
    """The message of a row with topic, partition, offset, key, value, headers and timestamp_ms."""
    return RawMessage(
        position=_position(row),
        key=row.key,
        value=row.value,
        headers=tuple((name, None if text is None else base64.b64decode(text)) for name, text in row.headers),
        timestamp_ms=row.timestamp_ms,
    )


def _counts(entry: Entry) -> dict[str, int]:
    return {"attempts": entry.attempts, "alone": entry.alone}


def _values(entry: Entry) -> dict[str, Any]:
    message = entry.message
    texts = {
        "source_schema": entry.schema,
        "source_table": entry.table,
        "error_class": entry.error_class,
        "error": entry.error,
        "sqlstate": entry.sqlstate,
    }
    return {
        **message.position._asdict(),
        "key": message.key,
        "value": message.value,
        "headers": [
            [name, None if value is None else base64.b64encode(value).decode()] for name, value in message.headers
        ],
        "timestamp_ms": message.timestamp_ms,
        **{name: None if text is None else storable(text) for name, text in texts.items()},
        "key_text": None if entry.key_text is None else entry.key_text.encode(),
        "stage": entry.stage,
        "verdict": entry.verdict.value if entry.verdict else None,
        "state": entry.state,
    }


def _held(row: Row[Any]) -> OpenEntry:
    return OpenEntry(
        id=row.id,
        state=EntryState(row.state),
        schema=row.source_schema,
        table=row.source_table,
        key_text=None if row.key_text is None else row.key_text.decode(),
        position=_position(row),
    )


def _position(row: Row[Any]) -> Position:
    return Position(row.topic, row.partition, row.offset)
