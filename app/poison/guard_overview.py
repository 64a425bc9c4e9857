"""The guard's tables for an operator: the span in progress and the suspects, by lane."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from app.ledger.ledger_tables import lanes_of
from app.poison.guard_tables import AttemptTables


@dataclass(frozen=True, kw_only=True)
class GuardOverview:
    """The guard's rows of one lane."""

    lane: str
    #: the attempt that was begun last; None if the lane never began one
    attempt: Row[Any] | None
    #: the oldest first
    suspects: Sequence[Row[Any]]


def overview(connection: Connection, schema: str, lane: str, *, several: bool) -> list[GuardOverview]:
    """The rows of `lane`; `several`: of each of its lanes `<lane>.<partition>` that has any."""
    tables = AttemptTables.in_schema(schema)
    attempt, suspect = tables.attempt, tables.suspect
    begun = select(attempt).where(lanes_of(attempt.c.lane, lane, several=several))
    attempts = {row.lane: row for row in connection.execute(begun)}
    suspected = select(suspect).where(lanes_of(suspect.c.lane, lane, several=several)).order_by(suspect.c.first_at)
    suspects = connection.execute(suspected).all()
    lanes = sorted({*attempts, *(row.lane for row in suspects)}) if several else [lane]
    return [
        GuardOverview(lane=name, attempt=attempts.get(name), suspects=[row for row in suspects if row.lane == name])
        for name in lanes
    ]
