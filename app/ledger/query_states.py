"""Names and schemas of a query's state, as its last run has it. Every method works in the caller's transaction."""

from collections.abc import Sequence

from sqlalchemy import BigInteger, Column, Connection, MetaData, Table, Text, delete, func, select
from sqlalchemy.dialects.postgresql import JSONB, insert

from app.model.state_store import StateStore


class QueryStates:
    """Those in the schema that `target.schema` names."""

    def __init__(self, schema: str) -> None:
        self._table = Table(
            "query_state",
            MetaData(schema=schema),
            Column("lane", Text, primary_key=True),
            Column("generation", BigInteger),
            Column("stores", JSONB),
            Column("written_at"),
        )

    def write(self, connection: Connection, lane: str, generation: int, stores: Sequence[StateStore]) -> None:
        """Where a newer writer has written, its row stays. `lane`: `<lane>.<query>`."""
        values = {"generation": generation, "stores": [one.as_json() for one in stores]}
        statement = insert(self._table).values(lane=lane, **values)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["lane"],
                set_={**values, "written_at": func.clock_timestamp()},
                where=self._table.c.generation <= generation,
            )
        )

    def find(self, connection: Connection, lane: str) -> list[StateStore] | None:
        """None: the query has never had a state."""
        found = connection.execute(select(self._table.c.stores).where(self._table.c.lane == lane)).scalar_one_or_none()
        return None if found is None else [StateStore.of(one) for one in found]

    def forget(self, connection: Connection, lane: str) -> None:
        connection.execute(delete(self._table).where(self._table.c.lane == lane))
