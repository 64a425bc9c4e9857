"""Orders to stop for a savepoint. Every method works in the caller's transaction."""

import datetime
from dataclasses import dataclass

from sqlalchemy import Column, Connection, DateTime, MetaData, Table, Text, delete, select
from sqlalchemy.dialects.postgresql import insert

from app.errors import Refused
from app.model.utc import utc


@dataclass(frozen=True, kw_only=True)
class StopOrder:
    """A lane ends at an epoch's end, and does not start again while it has one."""

    #: name of the savepoint that is made then
    savepoint: str
    ordered_by: str
    ordered_at: datetime.datetime


class StopOrders:
    """The order for one lane of a configuration, in the schema that `target.schema` names."""

    def __init__(self, schema: str, lane: str) -> None:
        self._lane = lane
        self._table = Table(
            "stop_order",
            MetaData(schema=schema),
            Column("lane", Text, primary_key=True),
            Column("savepoint", Text),
            Column("ordered_by", Text),
            Column("ordered_at", DateTime(timezone=True)),
        )

    def place(self, connection: Connection, savepoint: str, ordered_by: str) -> bool:
        """Whether there was no order for another savepoint."""
        values = {"lane": self._lane, "savepoint": savepoint, "ordered_by": ordered_by}
        connection.execute(insert(self._table).values(values).on_conflict_do_nothing())
        found = self.find(connection)
        return found is not None and found.savepoint == savepoint

    def find(self, connection: Connection) -> StopOrder | None:
        """The present order; None without one."""
        table = self._table.c
        columns = (table.savepoint, table.ordered_by, table.ordered_at)
        row = connection.execute(select(*columns).where(table.lane == self._lane)).first()
        return (
            None
            if row is None
            else StopOrder(savepoint=row.savepoint, ordered_by=row.ordered_by, ordered_at=row.ordered_at)
        )

    def check(self, connection: Connection) -> None:
        """Raises Refused where there is an order."""
        if (order := self.find(connection)) is not None:
            raise Refused(
                f"lane {self._lane} was stopped for savepoint {order.savepoint} by {order.ordered_by}, "
                f"{utc(order.ordered_at)}",
                hint=f"surelane run --from-savepoint {order.savepoint} goes on, or surelane savepoint resume",
            )

    def withdraw(self, connection: Connection, savepoint: str | None = None) -> None:
        """The lane may start again. `savepoint`: only if the order is for this one."""
        mine = self._table.c.lane == self._lane
        only = () if savepoint is None else (self._table.c.savepoint == savepoint,)
        connection.execute(delete(self._table).where(mine, *only))
