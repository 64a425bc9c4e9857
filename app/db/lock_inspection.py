"""The locks of prepared transactions, and the sessions that wait for them.

A prepared transaction has no backend: `pg_locks` has its locks without a pid, under the virtual transaction of the
session that prepared it, or `-1/<xid>` after a restart of the server; the lock on its own transaction id identifies it.
`pg_blocking_pids` gives 0 for each of them. So a waiter is matched by the lock that it wants: on the transaction id, or
on an object that the transaction has locked in a conflicting mode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

from app.db.sql import as_login

#: weak to strong; each mode conflicts with those of the letters (PostgreSQL manual, 13.3)
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
#: modes of statements that write rows, and stronger ones
_WRITING = tuple(_CONFLICTS)[2:]
#: relkind of tables and partitioned tables
_TABLE_KINDS = ("r", "p")

#: the locked object as one comparable value
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
#: Postgres 13 has no column `waitstart`
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
#: only the beginning of a query is read
MAX_QUERY_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class HeldLock:
    """One lock of a prepared transaction."""

    locktype: str
    mode: str
    #: the table or index, else the kind of object
    place: str


@dataclass(frozen=True, kw_only=True)
class LockWaiter:
    """A session that waits for a prepared transaction, directly or through another session."""

    pid: int
    user: str
    application: str
    #: mode of the lock that it waits for
    mode: str
    place: str
    seconds: float
    query: str
    #: whether it waits for another waiter, not for the transaction itself
    behind: bool


@dataclass(frozen=True, kw_only=True)
class PreparedLocks:
    """Locks, written tables and waiters of one prepared transaction."""

    locks: tuple[HeldLock, ...] = ()
    #: schema.table of the tables that it writes, quoted as in SQL
    tables: tuple[str, ...] = ()
    blocks: tuple[LockWaiter, ...] = ()


def holdings(connection: Connection, own_schema: str) -> dict[int, PreparedLocks]:
    """Locks of each prepared transaction, by transaction id. `tables` is without those of `own_schema`."""
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
    """Sessions that wait for one of `locks`, directly or through other sessions."""
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
