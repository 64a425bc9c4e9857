"""The record of each lane's last comparison, in the target."""

import datetime
from dataclasses import dataclass

from sqlalchemy import BigInteger, Column, Connection, DateTime, Integer, MetaData, Table, Text, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import URL

_COLUMNS = ("against", "tables", "rows", "differing")


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The outcome of a comparison."""

    lane: str
    #: the other side, as `place` gives it
    against: str
    tables: int
    rows: int
    differing: int
    #: by the target's clock; None: not written yet
    at: datetime.datetime | None = None


class Verifications:
    """The table `verification`."""

    def __init__(self, schema: str) -> None:
        self._table = Table(
            "verification",
            MetaData(schema=schema),
            Column("lane", Text, primary_key=True),
            Column("at", DateTime(timezone=True)),
            Column("against", Text),
            Column("tables", Integer),
            Column("rows", BigInteger),
            Column("differing", BigInteger),
        )

    def write(self, connection: Connection, done: Verification) -> None:
        """Replace the lane's record."""
        values = {name: getattr(done, name) for name in _COLUMNS} | {"at": func.clock_timestamp()}
        put = insert(self._table).values(lane=done.lane, **values)
        connection.execute(put.on_conflict_do_update(index_elements=["lane"], set_=values))

    def last(self, connection: Connection, lane: str) -> Verification | None:
        """The lane's record; None before the first comparison."""
        row = connection.execute(select(self._table).where(self._table.c.lane == lane)).mappings().first()
        return None if row is None else Verification(**row)


def place(url: URL) -> str:
    """Host, port and name of a database, without user and password."""
    host = url.host or str(url.query.get("host") or "local")
    return f"{host}:{url.port or url.query.get('port') or 5432}/{url.database}"
