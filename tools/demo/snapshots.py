"""A concurrent reader that checks that no snapshot shows part of an epoch.

Every row has the id of the transaction that wrote it (xmin), ledger rows included. In one snapshot, all visible rows
must come from transactions whose ledger row is visible in the same snapshot; a row without one belongs to a partial
epoch. The lane writes data in subtransactions, which have their own ids but the commit time of their parent, so
transactions are identified by commit time (the target runs with track_commit_timestamp).
"""

from collections import Counter

from sqlalchemy import Engine, Select, func, literal_column, select, table

from app.ledger.ledger_tables import LedgerTables
from tools.demo.tables import TABLES

#: seconds between two snapshots
EVERY_SECONDS = 0.5


class SnapshotReader:
    """Each `step` takes one snapshot of all tables."""

    def __init__(self, engine: Engine, schema: str, lane: str) -> None:
        self._connection = engine.connect().execution_options(isolation_level="REPEATABLE READ")
        self._schema, self._lane = schema, lane
        self.taken = 0
        #: snapshots that showed part of an epoch, by table
        self.partial: Counter[str] = Counter()

    def step(self) -> None:
        with self._connection.begin():
            for one in TABLES:
                if self._connection.execute(_strangers(one.name, self._schema, self._lane)).scalar_one():
                    self.partial[one.name] += 1
        self.taken += 1

    def close(self) -> None:
        self._connection.close()


def _strangers(name: str, schema: str, lane: str) -> Select[int]:
    """Counts the transactions that have rows in the table and no row in the ledger."""
    ledger = LedgerTables.in_schema(schema).ledger.alias("l")
    writers = select(literal_column("d.xmin").label("id")).select_from(table(name).alias("d")).distinct().subquery("w")
    same = func.pg_xact_commit_timestamp(literal_column("l.xmin")) == func.pg_xact_commit_timestamp(writers.c.id)
    known = select(ledger.c.lane).where(ledger.c.lane == lane, same).exists()
    return select(func.count()).select_from(writers).where(~known)
