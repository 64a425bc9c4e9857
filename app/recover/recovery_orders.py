"""The calls of recoveries as rows of the restored target. Methods work in the caller's transaction.

The journal beside the snapshot has each call before anything is done; the restored target gets the rows as soon as it
is there. The original gets none: a recovery never writes to it, and it may be what was lost.
"""

import datetime
from collections.abc import Sequence

from sqlalchemy import BigInteger, Boolean, Column, Connection, DateTime, Identity, Integer, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import insert

from app.recover.journal import RecoveryOrder


class RecoveryOrders:
    """The table `recovery_order` of the schema that `target.schema` names."""

    def __init__(self, schema: str, lane: str) -> None:
        self._lane = lane
        self._table = Table(
            "recovery_order",
            MetaData(schema=schema),
            Column("id", BigInteger, Identity(always=True), primary_key=True),
            *(Column(name, Text) for name in ("lane", "snapshot", "who", "host", "reason", "place")),
            Column("at", DateTime(timezone=True)),
            Column("port", Integer),
            *(Column(name, Boolean) for name in ("forced", "anew")),
        )

    def write(self, connection: Connection, snapshot: str, orders: Sequence[RecoveryOrder]) -> None:
        """Insert those that are not there yet."""
        rows = [
            {
                "lane": self._lane,
                "snapshot": snapshot,
                "at": datetime.datetime.fromisoformat(one.at),
                **{name: getattr(one, name) for name in ("who", "host", "reason", "place", "port", "anew")},
                "forced": one.foreign,
            }
            for one in orders
            if one.place is not None
        ]
        if rows:
            connection.execute(insert(self._table).on_conflict_do_nothing(), rows)
