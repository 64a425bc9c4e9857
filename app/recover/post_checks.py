"""Checks of a restored and replayed target that need no other database."""

from collections.abc import Iterator

from sqlalchemy import Connection, func, select

from app.config.settings import Settings
from app.db.prepared import prepared
from app.ledger.ledger_tables import COUNTS, LedgerTables, lanes_of
from app.model.offsets import Offsets
from app.recover.recovery_plan import PlanCheck


def sound(connection: Connection, settings: Settings, position: Offsets, goal: Offsets) -> Iterator[PlanCheck]:
    """Run the checks; `position`: how far the lanes have read, `goal`: where Kafka ended when the replay began."""
    left = position.left_to(goal)
    found = f"{position}, Kafka ended at {goal} when the replay began"
    yield PlanCheck(what="position", ok=not left, said=f"{found}: {left:,} are missing" if left else found)
    gids = [one.gid for one in prepared(connection)]
    yield PlanCheck(what="prepared", ok=not gids, said=", ".join(gids) or "nothing is prepared")
    yield _accounting(connection, settings)


def _accounting(connection: Connection, settings: Settings) -> PlanCheck:
    """Check that consumed = applied + compacted + filtered + duplicate + quarantined, in every ledger row."""
    ledger = LedgerTables.in_schema(settings.target.db_schema).ledger
    consumed, *others = (ledger.c[name] for name in COUNTS)
    mine = lanes_of(ledger.c.lane, settings.lane, several=settings.source.is_by_partition)
    parts = others[0]
    for other in others[1:]:
        parts = parts + other
    rows, total, wrong = connection.execute(
        select(func.count(), func.coalesce(func.sum(consumed), 0), func.count().filter(consumed != parts)).where(mine)
    ).one()
    found = f"{total:,} messages in {rows:,} epochs"
    return PlanCheck(what="accounting", ok=not wrong, said=f"{found}: {wrong:,} do not add up" if wrong else found)
