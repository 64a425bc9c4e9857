"""What prepared transactions hold, and who waits for them.

No backend stands behind a prepared transaction: `pg_locks` has its locks without a pid, under the virtual transaction
of the session that prepared it, or `-1/<xid>` once the server was started again; the lock on its own transaction id
tells which. `pg_blocking_pids` calls it 0 whichever it is. So who waits for which one is found by what is waited for:
the end of its transaction id, or an object that it holds in a mode that conflicts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

from app.db.sql import as_login

#: weak to strong; each conflicts with those whose letter is behind it (PostgreSQL manual, 13.3)
_CONFLICTS: Mapping[str, str] = {
    "AccessShareLock": "h",
    "RowShareLock": "gh",
    "RowExclusiveLock": "efgh",
    "ShareUpdateExclusiveLock": "defgh",
    "ShareLock": "cdfgh",
    "ShareRowExclusiveLock": "cdefgh",
    "ExclusiveLock": "bcdefgh",
    "AccessExclusiveLock": "abcdefgh",
}
_LETTER = dict(zip(_CONFLICTS, "abcdefgh", strict=True))
#: with one of these rows are written, or more
_WRITING = tuple(_CONFLICTS)[2:]
#: tables, and tables that are made of partitions
_TABLE_KINDS = ("r", "p")

#: the object of a lock, as one value that can be compared
_OBJECT = """
    concat_ws('/', l.locktype, l.database, l.relation, l.page, l.tuple, l.transactionid, l.classid, l.objid, l.objsubid)
"""
_WHERE = """
    coalesce(
        case when l.relation is not null and (l.database = 0 or d.oid is not null) then
            coalesce(quote_ident(n.nspname) || '.' || quote_ident(c.relname), 'relation ' || l.relation) end,
        case when l.transactionid is not null then 'transaction ' || l.transactionid end,
        l.locktype)
"""
_FROM = """
    from lock l
    left join pg_database d on d.oid = l.database and d.datname = current_database()
    left join pg_class c on c.oid = l.relation and (l.database = 0 or d.oid is not null)
    left join pg_namespace n on n.oid = c.relnamespace
"""
#: Postgres 13 has no such column
_SINCE = "(to_jsonb(l) ->> 'waitstart')::timestamptz"
_HELD = text(f"""
    with lock as materialized (select * from pg_locks where pid is null)
    select x.transaction::text::bigint xid, l.locktype, l.mode, {_WHERE} place, {_OBJECT} object, n.nspname, c.relkind
    {_FROM}
    join lock own on own.virtualtransaction = l.virtualtransaction and own.locktype = 'transactionid'
    join pg_prepared_xacts x on x.transaction = own.transactionid
    order by 1, 4, 3
""")  # noqa: S608  # constants of this module
_WAITING = text(f"""
    with lock as (select * from pg_locks where not granted)
    select l.pid, l.mode, {_WHERE} place, {_OBJECT} object, pg_blocking_pids(l.pid) blockers,
        a.usename, a.application_name, left(a.query, :characters) query,
        greatest(0, extract(epoch from clock_timestamp() - coalesce({_SINCE}, a.query_start)))::float8 seconds
    {_FROM} left join pg_stat_activity a on a.pid = l.pid order by l.pid
""")  # noqa: S608  # constants of this module
#: of a session's query only the beginning is read
MAX_QUERY_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class HeldLock:
    """One lock of a prepared transaction."""

    locktype: str
    mode: str
    #: the table or index, else what kind of object it is
    place: str


@dataclass(frozen=True, kw_only=True)
class LockWaiter:
    """A session that waits for a prepared transaction, or for a session that does."""

    pid: int
    user: str
    application: str
    #: the lock it wants
    mode: str
    place: str
    seconds: float
    query: str
    #: it waits for another session of these, not for the transaction itself
    behind: bool


@dataclass(frozen=True, kw_only=True)
class PreparedLocks:
    """What one prepared transaction holds."""

    locks: tuple[HeldLock, ...] = ()
    #: schema.table of what it writes, as SQL would name it
    tables: tuple[str, ...] = ()
    blocks: tuple[LockWaiter, ...] = ()


def holdings(connection: Connection, own_schema: str) -> dict[int, PreparedLocks]:
    """By transaction id, of every prepared transaction. Tables of `own_schema` are no tables it was made for."""
    held: dict[int, list[Row[Any]]] = {}
    for row in connection.execute(_HELD):
        held.setdefault(row.xid, []).append(row)
    with as_login(connection):
        waiting = connection.execute(_WAITING, {"characters": MAX_QUERY_CHARACTERS}).all()
    return {
        xid: PreparedLocks(
            locks=tuple(HeldLock(locktype=row.locktype, mode=row.mode, place=row.place) for row in locks),
            tables=_tables(locks, own_schema),
            blocks=_blocked(locks, waiting),
        )
        for xid, locks in held.items()
    }


def _tables(locks: Sequence[Row[Any]], own_schema: str) -> tuple[str, ...]:
    written = (row for row in locks if row.relkind in _TABLE_KINDS and row.mode in _WRITING)
    return tuple(sorted({row.place for row in written if row.nspname != own_schema}))


def _blocked(locks: Sequence[Row[Any]], waiting: Sequence[Row[Any]]) -> tuple[LockWaiter, ...]:
    """Who waits for one of `locks`, and who waits for those, and so on."""
    found = {row.pid: False for row in waiting if any(_conflict(lock, row) for lock in locks)}
    grown = True
    while grown:
        behind = {row.pid for row in waiting if row.pid not in found and found.keys() & set(row.blockers)}
        found |= dict.fromkeys(behind, True)
        grown = bool(behind)
    return tuple(_session(row, behind=found[row.pid]) for row in waiting if row.pid in found)


def _conflict(lock: Row[Any], wanted: Row[Any]) -> bool:
    return lock.object == wanted.object and _LETTER.get(wanted.mode, "-") in _CONFLICTS.get(lock.mode, "")


def _session(row: Row[Any], *, behind: bool) -> LockWaiter:
    return LockWaiter(
        pid=row.pid,
        user=row.usename or "",
        application=row.application_name or "",
        mode=row.mode,
        place=row.place,
        seconds=row.seconds,
        query=" ".join((row.query or "").split()),
        behind=behind,
    )
