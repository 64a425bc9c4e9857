"""Records of snapshots in the target, for the metrics."""

import datetime
from dataclasses import dataclass

from sqlalchemy import BigInteger, Boolean, Column, Connection, DateTime, MetaData, Table, Text, delete, desc, select
from sqlalchemy.dialects.postgresql import JSONB, insert

from app.model.offsets import Offsets


@dataclass(frozen=True, kw_only=True)
class Recorded:
    name: str
    lane: str
    driver: str
    at: datetime.datetime
    position: Offsets
    exact: bool
    bytes: int
    place: str


class Records:
    """The table `snapshot` in the schema of `target.schema`; works in the caller's transaction."""

    def __init__(self, schema: str) -> None:
        self._table = Table(
            "snapshot",
            MetaData(schema=schema),
            Column("name", Text, primary_key=True),
            *(Column(name, Text) for name in ("lane", "driver")),
            Column("at", DateTime(timezone=True)),
            Column("position", JSONB),
            Column("exact", Boolean),
            Column("bytes", BigInteger),
            Column("place", Text),
        )

    def write(self, connection: Connection, one: Recorded) -> None:
        """Insert the record; replace one of the same name."""
        values = {**vars(one), "position": one.position.nested()}
        put = insert(self._table).values(values)
        connection.execute(put.on_conflict_do_update(index_elements=["name"], set_=values))

    def delete(self, connection: Connection, name: str) -> None:
        connection.execute(delete(self._table).where(self._table.c.name == name))

    def newest(self, connection: Connection, lane: str) -> Recorded | None:
        """The lane's newest record; None if there is none."""
        mine = select(self._table).where(self._table.c.lane == lane).order_by(desc("at"), desc("name")).limit(1)
        row = connection.execute(mine).mappings().first()
        return None if row is None else Recorded(**{**row, "position": Offsets.from_nested(row["position"])})
