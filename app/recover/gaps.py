"""The record of gaps that operators accepted; the DDL is in migrations/."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, DateTime, Identity, MetaData, Row, Table, Text, insert, select
from sqlalchemy.dialects.postgresql import JSONB

from app.config.settings import Settings
from app.ledger.ledger_tables import LedgerTables, lanes_of


class Gaps:
    """The table `gap`. Every method runs in the caller's transaction."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._table = Table(
            "gap",
            MetaData(schema=schema),
            Column("id", BigInteger, Identity(always=True), primary_key=True),
            Column("lane", Text),
            *(Column(name, BigInteger) for name in ("generation", "missing")),
            *(
                Column(name, JSONB(none_as_null=True))
                for name in ("from_position", "to_position", "anew", "cluster", "rewritten")
            ),
            *(Column(name, Text) for name in ("reason", "db_user", "os_user", "host")),
            Column("at", DateTime(timezone=True)),
        )

    def add(self, connection: Connection, **values: Any) -> int:
        """Insert a gap; returns its id."""
        statement = insert(self._table).values(values).returning(self._table.c.id)
        return connection.execute(statement).scalar_one()

    def of(self, connection: Connection, settings: Settings) -> Sequence[Row[Any]]:
        """Gaps of the configuration's lanes, the oldest first."""
        mine = lanes_of(self._table.c.lane, settings.lane, several=settings.source.is_by_partition)
        return connection.execute(select(self._table).where(mine).order_by(self._table.c.id)).all()

    def lanes(self, connection: Connection, settings: Settings) -> Sequence[str]:
        """The configuration's lanes that have ever run."""
        lane = LedgerTables.in_schema(self._schema).lane.c.lane
        mine = lanes_of(lane, settings.lane, several=settings.source.is_by_partition)
        return connection.execute(select(lane).where(mine).order_by(lane)).scalars().all()
