"""The quarantine for an operator at the command line, whether the lane runs or not.

No method waits long for the lane: it refuses an entry that the lane's epoch in progress has locked. An operation
changes all entries named, or none.
"""

import datetime
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, case, func, null, or_, select, text, update
from sqlalchemy.exc import DBAPIError

from app.db.sqlstate import LOCK_NOT_AVAILABLE, sqlstate
from app.errors import Refused
from app.ledger.ledger_tables import lanes_of
from app.poison.guard_tables import GuardTables
from app.poison.storable_text import storable
from app.quarantine.quarantine import OPEN, EntryState

#: how long to wait for a lock: a committing epoch is done by then, one in doubt may take hours
LOCK_TIMEOUT_SECONDS = 2
_SET = text("select set_config('lock_timeout', :lock_timeout, true)")
_SAY = text("select set_config('surelane.who', :who, true), set_config('surelane.reason', :reason, true)")


class ReleaseState(enum.StrEnum):
    """What became of a requested release."""

    REQUESTED = "requested"  #: the lane takes it up, or has
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Conditions on entries; None or empty: no condition."""

    states: tuple[EntryState, ...] = ()
    ids: tuple[int, ...] = ()
    #: source schema.table, `*` stands for any text
    table: str | None = None
    topic: str | None = None
    #: skipped at or after
    since: datetime.datetime | None = None
    #: part of the error or of its class, case-insensitive
    reason: str | None = None
    #: beginning of the SQLSTATE
    sqlstate: str | None = None
    #: something was done with them by this person, with an event from the first to the last of these numbers
    done: "DoneBy | None" = None


@dataclass(frozen=True, kw_only=True)
class DoneBy:
    """What one person has done at one time, by the numbers of its events."""

    who: str
    first: int
    last: int


class Operator:
    """The entries of `lane`, or with `several` of its lanes `<lane>.<partition>`; works in the caller's transaction."""

    def __init__(self, schema: str, lane: str, *, several: bool) -> None:
        tables = GuardTables.in_schema(schema)
        self._table, self._event = tables.quarantine, tables.event
        self._mine = lanes_of(self._table.c.lane, lane, several=several)

    def find(
        self,
        connection: Connection,
        filters: Filter,
        limit: int,
        *,
        before: int | None = None,
        with_values: bool = True,
    ) -> Sequence[Row[Any]]:
        """Matching entries with all columns, the newest first; `before`: older than this entry. Without values, which
        may be large, `value` is None."""
        where = self._where(filters)
        if before is not None:
            where.append(self._table.c.id < before)
        statement = select(*self._columns(with_values=with_values)).where(*where)
        return connection.execute(statement.order_by(self._table.c.id.desc()).limit(limit)).all()

    def behind(self, connection: Connection, row: Row[Any], limit: int) -> Sequence[Row[Any]]:
        """Open entries of the row's key that follow it, in order, without their values; none where its key is not
        known."""
        if (where := self._behind(row)) is None:
            return []
        statement = select(*self._columns(with_values=False)).where(*where).order_by(self._table.c.id).limit(limit)
        return connection.execute(statement).all()

    def count_behind(self, connection: Connection, row: Row[Any]) -> int:
        """How many they are."""
        if (where := self._behind(row)) is None:
            return 0
        return connection.execute(select(func.count()).select_from(self._table).where(*where)).scalar_one()

    def _behind(self, row: Row[Any]) -> list[ColumnElement[bool]] | None:
        if row.key_text is None or row.source_table is None:
            return None
        table = self._table.c
        same = [getattr(table, name) == getattr(row, name) for name in ("source_schema", "source_table", "key_text")]
        return [self._mine, table.state.in_(OPEN), table.id > row.id, *same]

    def _columns(self, *, with_values: bool) -> list[ColumnElement[Any]]:
        return [
            null().label("value") if column.name == "value" and not with_values else column
            for column in self._table.columns
        ]

    def count(self, connection: Connection, filters: Filter) -> int:
        statement = select(func.count()).select_from(self._table).where(*self._where(filters))
        return connection.execute(statement).scalar_one()

    def ids(self, connection: Connection, filters: Filter) -> list[int]:
        """Ids of the matching entries, ascending: the order in which they were skipped."""
        statement = select(self._table.c.id).where(*self._where(filters)).order_by(self._table.c.id)
        return list(connection.execute(statement).scalars())

    def outcomes(self, connection: Connection, filters: Filter) -> list[tuple[EntryState, ReleaseState | None, int]]:
        """Number of the matching entries by state, and by what became of the request to release them."""
        table = self._table.c
        release = case(
            (table.release_requested_at.is_(None), null()),
            (table.release_refused.is_not(None), ReleaseState.REFUSED.value),
            else_=ReleaseState.REQUESTED.value,
        )
        counted = select(table.state, release, func.count()).where(*self._where(filters)).group_by(table.state, release)
        return [
            (EntryState(state), None if found is None else ReleaseState(found), count)
            for state, found, count in connection.execute(counted)
        ]

    def last_event(self, connection: Connection) -> int:
        """The number of the newest event, of all lanes."""
        return connection.execute(select(func.max(self._event.c.event))).scalar_one() or 0

    def done_since(self, connection: Connection, who: str, reason: str, event: int) -> DoneBy | None:
        """What a person has done for this reason behind an event."""
        found = self._event.c
        numbers = select(func.min(found.event), func.max(found.event))
        row = connection.execute(numbers.where(found.event > event, found.who == who, found.reason == reason)).one()
        return None if row[0] is None else DoneBy(who=who, first=row[0], last=row[1])

    def get(self, connection: Connection, entry: int) -> Row[Any]:
        """One entry with all columns; raises Refused if there is none."""
        row = connection.execute(select(self._table).where(self._mine, self._table.c.id == entry)).first()
        if row is None:
            raise Refused(f"the quarantine of this lane has no entry {entry}", hint="surelane quarantine list")
        return row

    def history(self, connection: Connection, entry: int) -> Sequence[Row[Any]]:
        """Events of an entry, the oldest first."""
        event = self._event
        return connection.execute(select(event).where(event.c.id == entry).order_by(event.c.event)).all()

    def request_release(
        self, connection: Connection, entries: Sequence[int], who: str, reason: str | None, *, forced: bool
    ) -> None:
        """Request that the lane applies these entries; `forced`: also after a newer change of the key."""
        allowed = (*OPEN, EntryState.SUPERSEDED) if forced else OPEN
        self._lock(connection, entries, allowed, "released")
        values = {
            "release_requested_at": func.clock_timestamp(),
            "release_requested_by": storable(who),
            "release_forced": forced,
            "release_reason": storable(reason) if reason else None,
            "release_refused": None,
        }
        connection.execute(update(self._table).where(self._table.c.id.in_(entries)).values(values))

    def discard(self, connection: Connection, entries: Sequence[int], who: str, reason: str) -> None:
        """Set these entries to DISCARDED, with `who` and `reason` in their event."""
        self._lock(connection, entries, OPEN, "discarded")
        connection.execute(_SAY, {"who": storable(who), "reason": storable(reason)})
        connection.execute(update(self._table).where(self._table.c.id.in_(entries)).values(state=EntryState.DISCARDED))

    def _lock(self, connection: Connection, entries: Sequence[int], allowed: Sequence[EntryState], to_be: str) -> None:
        """Lock the entries. Raises Refused unless all exist in one of the allowed states, or if one is locked."""
        try:
            connection.execute(_SET, {"lock_timeout": f"{LOCK_TIMEOUT_SECONDS}s"})
            found = self._states(connection, entries)
        except DBAPIError as error:
            if sqlstate(error) != LOCK_NOT_AVAILABLE:
                raise
            raise Refused(
                "one of these entries is held by an epoch of the lane that is not committed yet; nothing was changed",
                hint="try again in a moment; if it stays so, `surelane status` shows what is in doubt",
            ) from error
        problems = [_problem(entry, found.get(entry)) for entry in entries if found.get(entry) not in allowed]
        if problems:
            hint = "surelane quarantine list --state quarantined --state parked"
            raise Refused(f"cannot be {to_be}, nothing was changed: " + "; ".join(problems), hint=hint)

    def _states(self, connection: Connection, entries: Sequence[int]) -> dict[int, EntryState]:
        table = self._table
        statement = select(table.c.id, table.c.state).where(self._mine, table.c.id.in_(entries)).order_by(table.c.id)
        rows = connection.execute(statement.with_for_update(key_share=True))
        return {row.id: EntryState(row.state) for row in rows}

    def _where(self, filters: Filter) -> list[ColumnElement[bool]]:
        table = self._table
        where = [self._mine]
        if filters.states:
            where.append(table.c.state.in_(filters.states))
        if filters.ids:
            where.append(table.c.id.in_(filters.ids))
        if filters.done is not None:
            event = self._event.c
            mine = (event.who == filters.done.who, event.event.between(filters.done.first, filters.done.last))
            where.append(table.c.id.in_(select(event.id).where(*mine)))
        if filters.table is not None:
            name = table.c.source_schema + "." + table.c.source_table
            where.append(name.like(_like(filters.table), escape="\\"))
        if filters.topic is not None:
            where.append(table.c.topic == filters.topic)
        if filters.since is not None:
            where.append(table.c.quarantined_at >= filters.since)
        if filters.reason is not None:
            searched = (table.c.error, table.c.error_class)
            where.append(or_(*(column.icontains(filters.reason, autoescape=True) for column in searched)))
        if filters.sqlstate is not None:
            where.append(table.c.sqlstate.startswith(filters.sqlstate, autoescape=True))
        return where


def _like(pattern: str) -> str:
    """A LIKE pattern in which `*` matches any text and nothing else is special."""
    return "%".join(part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") for part in pattern.split("*"))


def _problem(entry: int, state: EntryState | None) -> str:
    if state is None:
        return f"there is no entry {entry}"
    if state is EntryState.SUPERSEDED:
        return f"entry {entry} is superseded (a newer change of its key was applied; --force releases it all the same)"
    return f"entry {entry} is {state} already"
