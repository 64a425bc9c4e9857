"""The outbox of a query: rows that are committed in the target, and not yet known to be in Kafka. Every method works in
the caller's transaction."""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection

from app.db.sql import literal, run
from app.query.staging_table import own_table

#: rows that are fetched at a time
_FETCHED = 5000


class OutboxRow(NamedTuple):
    key: str | None
    #: None: the row is deleted
    value: str | None


class ResultOutbox:
    """The outbox of `query`, in Surelane's `schema`."""

    def __init__(self, schema: str, query: str) -> None:
        self.name = own_table(schema, "outbox", query)
        self._query = query

    def make(self, connection: Connection) -> None:
        """Make the table unless it is there."""
        run(
            connection,
            f"create table if not exists {self.name}"
            " (batch bigint, number bigint, key text, value text, primary key (batch, number))",
        )
        run(connection, f"comment on table {self.name} is {literal(f'rows of {self._query} for Kafka')}")

    def exists(self, connection: Connection) -> bool:
        return run(connection, f"select to_regclass({literal(self.name)}) is not null").scalar_one()

    def newest(self, connection: Connection) -> int:
        """Number of the last batch, 0 for none."""
        return run(connection, f"select coalesce(max(batch), 0) from {self.name}").scalar_one()  # noqa: S608

    def oldest(self, connection: Connection) -> int | None:
        """Number of the first batch."""
        return run(connection, f"select min(batch) from {self.name}").scalar_one()  # noqa: S608

    def batches(self, connection: Connection) -> int:
        """About how many batches wait."""
        return run(
            connection,
            f"select coalesce(max(batch) - min(batch) + 1, 0) from {self.name}",  # noqa: S608
        ).scalar_one()

    def deletes(self, connection: Connection, batch: int) -> int:
        """Rows of the batch without a value."""
        return run(
            connection,
            f"select count(*) from {self.name} where batch = {batch} and value is null",  # noqa: S608
        ).scalar_one()

    def rows(self, connection: Connection, batch: int) -> Iterator[OutboxRow]:
        """The rows of a batch, in order."""
        of = f"select key, value from {self.name} where batch = {batch} order by number"  # noqa: S608
        for row in connection.exec_driver_sql(of, execution_options={"no_parameters": True, "yield_per": _FETCHED}):
            yield OutboxRow(row.key, row.value)

    def forget(self, connection: Connection, sent: int) -> None:
        """Delete the batches that Kafka has, up to this one."""
        run(connection, f"delete from {self.name} where batch <= {sent}")  # noqa: S608

    def drop(self, connection: Connection) -> None:
        run(connection, f"drop table {self.name}")
