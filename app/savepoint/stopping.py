"""Stops a lane for a savepoint: the order is in the target, so each process of the lane obeys it, on any machine."""

import time
from collections.abc import Callable

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.config.settings import Settings
from app.db.prepared import gids
from app.db.sqlstate import describe
from app.errors import Refused, Unreachable
from app.ledger.connection import connected
from app.ledger.held_lanes import held_lanes
from app.ledger.stop_orders import StopOrders

#: seconds between two checks whether the lane has ended
LOOK_SECONDS = 0.2
_APPLICATION = "surelane savepoint"


def stop(settings: Settings, name: str, ordered_by: str, seconds: float, progress: Callable[[str], None]) -> None:
    """Order the lane to stop for savepoint `name`, and wait until no process writes it. The order stays: the lane does
    not start again before `resume`. Raises Refused, without an order left, after `seconds`, and Unreachable, whose
    hint says whether one may be left."""
    orders = StopOrders(settings.target.db_schema, settings.lane)
    with connected(settings, _APPLICATION, "savepoint: stopping the lane") as connection:
        try:
            with connection.begin():
                if not orders.place(connection, name, ordered_by):
                    found = orders.find(connection)
                    other = found.savepoint if found else "that is gone"
                    raise Refused(
                        f"lane {settings.lane} has an order to stop for savepoint {other}",
                        hint="surelane savepoint resume withdraws it",
                    )
            _wait(connection, settings, seconds, progress)
            _check_settled(connection, settings)
        except BaseException:
            _withdraw(connection, orders, settings.lane, name)
            raise


def resume(settings: Settings) -> bool:
    """Withdraw the order: the lane may start again. Returns whether there was one."""
    orders = StopOrders(settings.target.db_schema, settings.lane)
    with connected(settings, _APPLICATION, "savepoint: stopping the lane") as connection, connection.begin():
        found = orders.find(connection) is not None
        orders.withdraw(connection)
    return found


def _withdraw(connection: Connection, orders: StopOrders, lane: str, name: str) -> None:
    """The order that this call has placed, also where it does not know whether it has."""
    try:
        with connection.begin():
            orders.withdraw(connection, name)
    except DBAPIError as error:
        raise Unreachable(
            f"lane {lane} may have an order to stop for savepoint {name}: {describe(error)}",
            hint="when the target answers: surelane savepoint resume withdraws it; or the same once more",
        ) from error


def _check_settled(connection: Connection, settings: Settings) -> None:
    """Raises Refused for a prepared transaction of the lane: its next start decides it, so the position may change."""
    with connection.begin():
        left = [str(gid) for gid in gids(connection) if gid.is_of(settings.lane)]
    if left:
        raise Refused(
            f"lane {settings.lane} has left prepared transactions: {', '.join(left)}",
            hint="its next start settles them: surelane run --until-caught-up, then this again. The order is withdrawn",
        )


def _wait(connection: Connection, settings: Settings, seconds: float, progress: Callable[[str], None]) -> None:
    deadline = time.monotonic() + seconds
    while holders := _writers(connection, settings):
        if time.monotonic() > deadline:
            raise Refused(
                f"the lane has not ended within {seconds:g} s: {', '.join(holders)}",
                hint="--timeout gives it more; surelane status says what it does. The order is withdrawn",
            )
        progress(f"waiting for {', '.join(holders)}")
        time.sleep(LOOK_SECONDS)


def _writers(connection: Connection, settings: Settings) -> list[str]:
    """Sessions that hold a lock of one of the lanes."""
    several = settings.source.is_by_partition
    with connection.begin():
        held = held_lanes(connection, settings.target.db_schema, settings.lane, several=several)
    return [f"lane {name} (backend {pid})" for name, pid in held.items()]
