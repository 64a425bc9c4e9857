"""Resuming from the ledger: the operator's answer when target and checkpoint do not fit together.

Nothing is deleted and no data is touched. A new generation is claimed whose checkpoint is FROM_LEDGER: the next start
puts the old checkpoint aside and begins a new one at the ledger's end. Doing it twice changes nothing more.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from app.config.settings import Order, Settings
from app.db.failures import translated
from app.db.locks import lock_holder
from app.errors import Diverged, Refused
from app.kafka.broker import Broker
from app.ledger.store import FROM_LEDGER, Ledger
from app.model.offsets import Offsets
from app.recover.archived import archive_reach


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What the next start of one lane will do."""

    lane: str
    #: where it will go on
    position: Offsets
    #: offsets between there and the end of the topic
    messages: int


class LaneRunning(Refused):
    """The lane is running."""


def recover_from_ledger(settings: Settings, engine: Engine, broker: Broker, *, dry_run: bool) -> list[Recovery]:
    """Check that Kafka, or the archive and Kafka, hold everything from the ledger's end on, then ask the next start to
    resume there."""
    schema, found = settings.target.db_schema, []
    with translated("recovering from the ledger"), engine.begin() as connection:
        for name in _names(settings, broker):
            ledger = Ledger(schema, name)
            found.append(_check(connection, ledger, broker, settings))
            if not dry_run:
                ledger.claim(connection, checkpoint=FROM_LEDGER, delivery=settings.mode.value, at_least=0)
    return found


def _names(settings: Settings, broker: Broker) -> list[str]:
    if settings.source.order is Order.TOTAL:
        return [settings.lane]
    return [f"{settings.lane}.{tp.partition}" for tp in sorted(broker.partitions())]


def _check(connection: Connection, ledger: Ledger, broker: Broker, settings: Settings) -> Recovery:
    holder = lock_holder(connection, ledger.lane)
    if holder is not None:
        raise LaneRunning(
            f"lane {ledger.lane} is running (backend {holder} holds its lock)",
            hint="stop it first, then call recover again",
        )
    last = ledger.last(connection)
    if last is None:
        raise Diverged(
            f"lane {ledger.lane}: the ledger knows nothing of it, so there is no position to resume from",
            hint="is this the right database? A new lane starts with `surelane run` and an empty checkpoint folder",
        )
    archived = archive_reach(settings, last.span.end)
    marks = broker.watermarks(last.span.end)
    gone = {tp: mark.low for tp, mark in marks.items() if archived[tp] < mark.low}
    if gone:
        missing = ", ".join(f"{tp} {archived[tp]} to {low - 1}" for tp, low in gone.items())
        nobody = "Kafka no longer holds" if settings.archive is None else "neither Kafka nor the archive holds"
        raise Diverged(
            f"lane {ledger.lane}: {nobody} offsets {missing}, which the target still needs",
            hint="restore a newer snapshot of the target, or let Debezium snapshot into a new lane",
        )
    behind = sum(max(0, mark.high - last.span.end[tp]) for tp, mark in marks.items())
    return Recovery(lane=ledger.lane, position=last.span.end, messages=behind)
