"""The quarantine of one lane, as the lane uses it: messages it skipped, kept whole, and those to be applied after all.

Every method works in the caller's transaction and never ends it, so that an entry is there exactly when the ledger's
row of its epoch is. The states and the steps between them are the database's own rules (migrations/): a wrong step is
refused there, whoever tries it.
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

#: entries released at one time, whose messages are in memory together
RELEASES_AT_ONCE = 100


class EntryState(enum.StrEnum):
    """What has become of a skipped message."""

    QUARANTINED = "quarantined"  #: it could not be applied
    PARKED = "parked"  #: it follows one of its key that could not be applied
    RELEASED = "released"  #: it was applied after all
    DISCARDED = "discarded"  #: an operator gave it up
    SUPERSEDED = "superseded"  #: a newer change of its key was applied


#: states in which a message still waits for somebody
OPEN = (EntryState.QUARANTINED, EntryState.PARKED)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A message to be kept. What is said of the failure is None for one that is parked without having been tried."""

    message: RawMessage
    #: QUARANTINED or PARKED
    state: EntryState
    #: the source's schema and table, None when the message could not be decoded
    schema: str | None
    table: str | None
    #: key as the lane compares keys
    key_text: str | None
    #: decode, transform, apply, process or epoch
    stage: str | None = None
    verdict: Verdict | None = None
    error_class: str | None = None
    #: as `app.quarantine.redacted_text.error_text` gives it
    error: str | None = None
    sqlstate: str | None = None
    attempts: int = 0
    #: failures of this message by itself
    alone: int = 0


@dataclass(frozen=True, kw_only=True)
class OpenEntry:
    """What is known of an open entry without its message."""

    id: int
    state: EntryState
    schema: str | None
    table: str | None
    key_text: str | None
    position: Position


@dataclass(frozen=True, kw_only=True)
class Release:
    """An entry that an operator wants to be applied after all."""

    held: OpenEntry
    message: RawMessage
    #: apply it though a newer change of its key was applied
    forced: bool


@dataclass(frozen=True, kw_only=True)
class Skip:
    """What is known of any entry, open or closed, in short."""

    position: Position
    state: EntryState
    #: schema.table of the source; None: not known
    table: str | None


@dataclass(frozen=True, kw_only=True)
class ParkedEntries:
    """Open entries of one source table."""

    #: None: could not be decoded
    schema: str | None
    table: str | None
    quarantined: int
    parked: int
    #: how many keys these are of, as far as they are known
    keys: int


class Quarantine:
    """The quarantine of `lane` in the schema `schema`."""

    def __init__(self, schema: str, lane: str) -> None:
        self.lane = lane
        self._tables = GuardTables.in_schema(schema)

    def add(self, connection: Connection, generation: int, epoch: int, entries: Iterable[Entry]) -> list[OpenEntry]:
        """Keep messages; gives those that are open now. One that is there already (the epoch is applied again) stays,
        with its new attempts."""
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
            if row is not None:  # else it is closed already
                kept.append(_held(row))
        return kept

    def held(self, connection: Connection) -> list[OpenEntry]:
        """Every open entry, in the order of the positions."""
        rows = connection.execute(self._in_order(_HELD).where(self._is_open()))
        return [_held(row) for row in rows]

    def skips(self, connection: Connection) -> list[Skip]:
        """Every entry, in the order of the positions."""
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
        """Offsets from `first` on, `end` not among them, that have an entry of any state."""
        table = self._tables.quarantine
        where = (table.c.lane == self.lane, table.c.topic == tp.topic, table.c.partition == tp.partition)
        offset = table.c.offset
        return set(connection.execute(select(offset).where(*where, offset >= first, offset < end)).scalars())

    def still_open(self, connection: Connection, entries: Iterable[int]) -> set[int]:
        """Those of these entries that are open; they stay so until this transaction ends."""
        table = self._tables.quarantine
        statement = select(table.c.id).where(table.c.lane == self.lane, table.c.id.in_(list(entries)), self._is_open())
        return set(connection.execute(statement.order_by(table.c.id).with_for_update(read=True)).scalars())

    def has_requests(self, connection: Connection) -> bool:
        """Whether somebody waits for a release."""
        statement = select(self._tables.quarantine.c.id).where(*self._is_requested()).limit(1)
        return connection.execute(statement).first() is not None

    def requested(self, connection: Connection) -> list[Release]:
        """Entries to be released, in the order of the positions, RELEASES_AT_ONCE at most.

        They stay as they are until this transaction ends: nobody discards one while it is being applied.
        """
        statement = self._in_order((*_HELD, *_MESSAGE, "release_forced")).where(*self._is_requested())
        rows = connection.execute(statement.limit(RELEASES_AT_ONCE).with_for_update(key_share=True))
        return [Release(held=_held(row), message=raw_message(row), forced=row.release_forced) for row in rows]

    def released(self, connection: Connection, entry: int) -> None:
        """The entry's message is applied by this transaction."""
        self._update(connection, [entry], state=EntryState.RELEASED)

    def refuse(self, connection: Connection, entry: int, why: str) -> None:
        """The entry stays as it is; `why` is for whoever asked for its release."""
        self._update(connection, [entry], release_refused=storable(why))

    def supersede(self, connection: Connection, entries: Sequence[int]) -> None:
        """Newer changes of these entries' keys are applied by this transaction. Closed entries stay as they are; who
        has asked for a release is told, unless it is forced."""
        table = self._tables.quarantine
        waits = and_(table.c.release_requested_at.is_not(None), table.c.release_forced.is_(False))
        refused = case((waits, "a newer change of its key was applied"), else_=table.c.release_refused)
        self._update(connection, entries, self._is_open(), state=EntryState.SUPERSEDED, release_refused=refused)

    def since(self, connection: Connection, minutes: float) -> int:
        """How many messages were quarantined, not parked, within the last minutes; whatever has become of them."""
        table, event = self._tables.quarantine, self._tables.event
        statement = (
            select(func.count())
            .select_from(event.join(table, event.c.id == table.c.id))
            .where(table.c.lane == self.lane, event.c.what == "kept", event.c.to_state == EntryState.QUARANTINED)
            .where(event.c.at >= func.clock_timestamp() - timedelta(minutes=minutes))
        )
        return connection.execute(statement).scalar_one()

    def waiting(self, connection: Connection) -> list[ParkedEntries]:
        """How many entries are open, by table."""
        table = self._tables.quarantine
        place = (table.c.source_schema, table.c.source_table)
        numbers = [func.count().filter(table.c.state == state) for state in OPEN]
        statement = select(*place, *numbers, func.count(table.c.key_text.distinct()))
        rows = connection.execute(statement.where(table.c.lane == self.lane, self._is_open()).group_by(*place))
        names = ("schema", "table", "quarantined", "parked", "keys")
        return [ParkedEntries(**dict(zip(names, row, strict=True))) for row in rows]

    def counts(self, connection: Connection) -> dict[EntryState, int]:
        """Entries of the lane by state, all states named."""
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
    """The message of a row that has position, key, value, headers and timestamp_ms."""
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
