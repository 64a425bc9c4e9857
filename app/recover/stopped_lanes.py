"""The lanes of a configuration, and a check that they are stopped, which changes to their ledger need."""

from sqlalchemy import Connection

from app.config.settings import Order, Settings
from app.db.locks import lock_holder, wait_for_lock
from app.errors import Refused
from app.kafka.broker import Broker

#: seconds that the session of a call that has just ended, or was killed, may take to release its lock
ENDING_SECONDS = 5.0


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


def lock_stopped(connection: Connection, lane: str) -> None:
    """Take the lane's lock, for this session. Raises LaneRunning while another session holds it."""
    with connection.begin():
        holder = wait_for_lock(connection, lane, ENDING_SECONDS)
    if holder is not None:
        raise LaneRunning(
            f"lane {lane} is running (backend {holder} holds its lock)",
            hint="stop it first, then call this again; if it does not run, its connection was lost, and the server has "
            f"not noticed that: select pg_terminate_backend({holder})",
        )
