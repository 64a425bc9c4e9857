"""The lanes of a configuration, and a check that they are stopped, which changes to their ledger need."""

from sqlalchemy import Connection

from app.config.settings import Order, Settings
from app.db.locks import lock_holder
from app.errors import Refused
from app.kafka.broker import Broker


class LaneRunning(Refused):
    """The lane is running."""


def lane_names(settings: Settings, broker: Broker) -> list[str]:
    """The lane; with `order: partition` a lane for each partition that Kafka has."""
    if settings.source.order is Order.TOTAL:
        return [settings.lane]
    return [settings.lane_of(tp) for tp in sorted(broker.partitions())]


def check_stopped(connection: Connection, lane: str) -> None:
    """Raises LaneRunning while a session holds the lane's lock."""
    holder = lock_holder(connection, lane)
    if holder is not None:
        raise LaneRunning(
            f"lane {lane} is running (backend {holder} holds its lock)",
            hint="stop it first, then call recover again",
        )
