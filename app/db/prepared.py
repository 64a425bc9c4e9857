"""Prepared transactions of the current database."""

import datetime
from dataclasses import dataclass

from sqlalchemy import Connection, text

_LIST = text(
    "select gid, owner, database, prepared from pg_prepared_xacts where database = current_database() order by prepared"
)
_SLOTS = text("select (select count(*) from pg_prepared_xacts), current_setting('max_prepared_transactions')::int")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """One row of pg_prepared_xacts."""

    gid: str
    owner: str
    database: str
    prepared_at: datetime.datetime


def prepared(connection: Connection) -> list[Prepared]:
    """Every prepared transaction of this database, oldest first, ours and others'."""
    return [
        Prepared(gid=row.gid, owner=row.owner, database=row.database, prepared_at=row.prepared)
        for row in connection.execute(_LIST)
    ]


def slots(connection: Connection) -> tuple[int, int]:
    """How many prepared transactions the whole server holds, and how many it may hold."""
    used, limit = connection.execute(_SLOTS).one()
    return used, limit
