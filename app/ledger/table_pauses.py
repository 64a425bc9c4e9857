"""Pauses of single target tables. Every method works in the caller's transaction."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from app.ledger.ledger_tables import LedgerTables


@dataclass(frozen=True, kw_only=True)
class TablePause:
    """While a table has one, its changes are parked in quarantine."""

    schema: str
    table: str
    by: str
    at: datetime.datetime
    reason: str | None
    #: whether the lane parks its changes already
    is_taken_up: bool
    #: who has the parked messages applied, which ends it
    resumed_by: str | None

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    def as_json(self) -> dict[str, Any]:
        who = {"by": self.by, "at": self.at.isoformat(), "reason": self.reason}
        return {"table": self.name, **who, "taken_up": self.is_taken_up, "resumed_by": self.resumed_by}


class TablePauses:
    """The paused tables of one lane, in the schema that `target.schema` names."""

    def __init__(self, schema: str, lane: str) -> None:
        self._lane = lane
        self._table = LedgerTables.in_schema(schema).table_pause

    def place(self, connection: Connection, schema: str, table: str, by: str, reason: str | None) -> None:
        """Pause a table; an earlier pause stays as it is."""
        values = {"lane": self._lane, "target_schema": schema, "target_table": table, "paused_by": by, "reason": reason}
        connection.execute(insert(self._table).values(values).on_conflict_do_nothing())

    def find(self, connection: Connection) -> Sequence[TablePause]:
        table = self._table.c
        rows = connection.execute(
            select(self._table).where(table.lane == self._lane).order_by(table.target_schema, table.target_table)
        )
        return [
            TablePause(
                schema=row.target_schema,
                table=row.target_table,
                by=row.paused_by,
                at=row.paused_at,
                reason=row.reason,
                is_taken_up=row.taken_up_at is not None,
                resumed_by=row.resumed_by,
            )
            for row in rows
        ]

    def are_new(self, connection: Connection) -> bool:
        """Whether the lane has to take up a pause, or the end of one."""
        table = self._table.c
        found = exists().where(
            table.lane == self._lane, or_(table.taken_up_at.is_(None), table.resumed_by.is_not(None))
        )
        return bool(connection.execute(select(found)).scalar_one())

    def take_up(self, connection: Connection) -> None:
        """From here on the lane parks the changes of all of them."""
        table = self._table.c
        mine = update(self._table).where(table.lane == self._lane, table.taken_up_at.is_(None))
        connection.execute(mine.values(taken_up_at=func.clock_timestamp()))

    def resume(self, connection: Connection, schema: str, table: str, by: str) -> None:
        connection.execute(update(self._table).where(*self._is(schema, table)).values(resumed_by=by))

    def end(self, connection: Connection, schema: str, table: str) -> None:
        connection.execute(delete(self._table).where(*self._is(schema, table)))

    def _is(self, schema: str, table: str) -> tuple[Any, ...]:
        columns = self._table.c
        return columns.lane == self._lane, columns.target_schema == schema, columns.target_table == table
