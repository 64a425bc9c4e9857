"""Pauses of lanes. Every method works in the caller's transaction."""

import datetime
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert

from app.ledger.ledger_tables import LedgerTables
from app.model.utc import utc

#: state of a lane that obeys a pause
PAUSED = "paused"
#: `Pause.by` of a lane that has paused itself: too many messages of paused tables would be parked
BY_ITSELF = "the lane"


@dataclass(frozen=True, kw_only=True)
class Pause:
    """While a lane has one, its process begins no epoch and applies no release."""

    by: str
    at: datetime.datetime
    reason: str | None

    @property
    def token(self) -> str:
        """What a lane records with its state: that it obeys this pause, not an earlier one."""
        return self.at.isoformat()

    def __str__(self) -> str:
        return f"paused by {self.by}, {utc(self.at)}" + (f": {self.reason}" if self.reason else "")

    def as_json(self) -> dict[str, Any]:
        return {"by": self.by, "at": self.at.isoformat(), "reason": self.reason}


class Pauses:
    """The pause of the lanes of one configuration, in the schema that `target.schema` names."""

    def __init__(self, schema: str, lane: str) -> None:
        self._lane = lane
        self._table = LedgerTables.in_schema(schema).pause

    def place(self, connection: Connection, by: str, reason: str | None) -> None:
        """Pause the lane; an earlier pause stays as it is."""
        values = {"lane": self._lane, "paused_by": by, "reason": reason}
        connection.execute(insert(self._table).values(values).on_conflict_do_nothing())

    def find(self, connection: Connection) -> Pause | None:
        columns = self._table.c
        row = connection.execute(select(self._table).where(columns.lane == self._lane)).first()
        return None if row is None else Pause(by=row.paused_by, at=row.paused_at, reason=row.reason)

    def withdraw(self, connection: Connection) -> None:
        connection.execute(delete(self._table).where(self._table.c.lane == self._lane))
