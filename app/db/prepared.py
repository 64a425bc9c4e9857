"""Prepared transactions of the current database."""

import datetime
from dataclasses import dataclass

from sqlalchemy import Connection, text

from app.db.sql import literal, run
from app.model.gid import Gid

_LIST = text("""
    select gid, owner, database, prepared, transaction::text::bigint xid,
        extract(epoch from clock_timestamp() - prepared)::float8 age_seconds
    from pg_prepared_xacts where database = current_database() order by prepared, gid
""")
_NEXT_XID = text("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
_XACT_STATUS = text("select pg_xact_status(cast(:xid as xid8))")
_SLOTS = text("select (select count(*) from pg_prepared_xacts), current_setting('max_prepared_transactions')::int")
_HALF = 2**31


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """One row of pg_prepared_xacts."""

    gid: str
    owner: str
    database: str
    prepared_at: datetime.datetime
    #: by the server's clock
    age_seconds: float
    #: transaction id, 32 bits
    xid: int


def prepared(connection: Connection) -> list[Prepared]:
    """Each prepared transaction of this database, oldest first, foreign ones included."""
    return [
        Prepared(
            gid=row.gid,
            owner=row.owner,
            database=row.database,
            prepared_at=row.prepared,
            age_seconds=max(0.0, row.age_seconds),
            xid=row.xid,
        )
        for row in connection.execute(_LIST)
    ]


def gids(connection: Connection) -> list[Gid]:
    """Those of this database that are Surelane's, oldest first."""
    return [gid for one in prepared(connection) if (gid := Gid.parse(one.gid))]


def end(connection: Connection, gid: str, *, commit: bool) -> None:
    """COMMIT PREPARED or ROLLBACK PREPARED of any gid, foreign ones included. `connection` is in autocommit."""
    run(connection, ("commit prepared " if commit else "rollback prepared ") + literal(gid))


def full_xid(connection: Connection, xid: int) -> int:
    """The 64-bit form of a transaction id in use: the server shows 32 bits, which wrap around at four billion."""
    newest = connection.execute(_NEXT_XID).scalar_one()
    return newest + (xid - newest + _HALF) % (2 * _HALF) - _HALF


def xact_status(connection: Connection, xid: int) -> str | None:
    """`committed`, `aborted` or `in progress`; None: too old, the server has removed its status."""
    return connection.execute(_XACT_STATUS, {"xid": str(xid)}).scalar_one_or_none()


def slots(connection: Connection) -> tuple[int, int]:
    """Number of prepared transactions on the whole server, and its max_prepared_transactions."""
    used, limit = connection.execute(_SLOTS).one()
    return used, limit
