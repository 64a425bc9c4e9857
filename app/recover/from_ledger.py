"""Resuming from the ledger: what an operator does when target and checkpoint do not fit together.

Nothing is deleted and no data is touched. It claims a new generation whose checkpoint is FROM_LEDGER: the next start
puts the old checkpoint aside and begins a new one at the ledger's end. A second call only claims another generation.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from app.config.settings import Settings
from app.db.sqlstate import translated
from app.kafka.broker import Broker
from app.ledger.store import FROM_LEDGER, Ledger
from app.model.offsets import Offsets
from app.recover.gap import Look
from app.recover.stopped_lanes import check_stopped, lane_names


@dataclass(frozen=True, kw_only=True)
class Resumption:
    """What the next start of one lane will do."""

    lane: str
    #: where the lane goes on
    position: Offsets
    #: offsets from there to the end of the topic
    messages: int


def recover_from_ledger(settings: Settings, engine: Engine, broker: Broker, *, dry_run: bool) -> list[Resumption]:
    """Check that Kafka, or archive and Kafka, have everything from the ledger's end on, then make the next start resume
    there."""
    schema, found, seen = settings.target.db_schema, [], Look.of(settings, broker)
    with translated("recovering from the ledger"), engine.begin() as connection:
        for name in lane_names(settings, broker):
            ledger = Ledger(schema, name)
            found.append(_check(connection, ledger, seen))
            if not dry_run:
                ledger.claim(connection, checkpoint=FROM_LEDGER, delivery=settings.mode.value, at_least=0)
    return found


def _check(connection: Connection, ledger: Ledger, seen: Look) -> Resumption:
    check_stopped(connection, ledger.lane)
    gap = seen.at(connection, ledger)
    if gap.is_one:
        raise gap.error()
    return Resumption(lane=ledger.lane, position=gap.position, messages=gap.behind)
