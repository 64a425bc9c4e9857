"""Which lanes of a configuration have a writer."""

from sqlalchemy import Connection, select

from app.db.locks import lock_holder
from app.ledger.ledger_tables import LedgerTables, lanes_of


def lanes_there(connection: Connection, schema: str, lane: str, *, several: bool) -> list[str]:
    """Names of the lanes that the ledger has, in order; `several`: those of partitions."""
    column = LedgerTables.in_schema(schema).lane.c.lane
    return list(
        connection.execute(select(column).where(lanes_of(column, lane, several=several)).order_by(column)).scalars()
    )


def held_lanes(connection: Connection, schema: str, lane: str, *, several: bool) -> dict[str, int]:
    """Lane -> backend that holds its lock, of those whose lock is held."""
    names = lanes_there(connection, schema, lane, several=several)
    return {name: pid for name in names if (pid := lock_holder(connection, name)) is not None}
