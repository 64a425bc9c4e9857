"""The guard's tables as an operator reads them: what is in progress and what is suspected, lane by lane."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from app.ledger.ledger_tables import lanes_of
from app.poison.guard_tables import AttemptTables


@dataclass(frozen=True, kw_only=True)
class GuardOverview:
    """What the guard has on record of one lane: rows of its tables as they are."""

    lane: str
    #: the span begun last; None for a lane that never began one
    attempt: Row[Any] | None
    #: in the order in which they were found
    suspects: Sequence[Row[Any]]


def overview(connection: Connection, schema: str, lane: str, *, several: bool) -> list[GuardOverview]:
    """Of `lane`, with `several` of its lanes `<lane>.<partition>` that ever began anything."""
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
