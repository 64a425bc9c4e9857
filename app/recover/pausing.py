"""Pauses a lane and resumes it: the pause is a row in the target, which each process of the lane obeys."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from app.config.settings import Settings
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.errors import Refused
from app.ledger.held_lanes import held_lanes
from app.ledger.migrations import check_revision
from app.ledger.pauses import PAUSED, Pause, Pauses
from app.ledger.store import Ledger

#: seconds between two checks whether the lanes have paused
LOOK_SECONDS = 0.2


def pause(
    settings: Settings, by: str, reason: str | None, seconds: float, progress: Callable[[str], None]
) -> tuple[Pause, list[str]]:
    """Pause the lane, and wait until each of its running writers has: then no epoch is in process and nothing is
    prepared. Returns the pause, and the running lanes. Raises Refused after `seconds`; the pause stays."""
    pauses, schema = Pauses(settings.target.db_schema, settings.lane), settings.target.db_schema
    deadline = time.monotonic() + seconds
    with _connected(settings) as connection:
        with connection.begin():
            pauses.place(connection, by, reason)
            found = pauses.find(connection)
        assert found is not None, "just placed"
        while True:
            with connection.begin():
                held = held_lanes(connection, schema, settings.lane, several=settings.source.is_by_partition)
                states = {name: Ledger(schema, name).state(connection) for name in held}
            late = [name for name, state in states.items() if state is None or state.state != PAUSED]
            if not late:
                return found, list(held)
            if time.monotonic() > deadline:
                raise Refused(
                    f"not paused within {seconds:g} s: lane {', '.join(late)}",
                    hint="the pause stays: the lane obeys it at its epoch's end, surelane status shows when; "
                    "surelane resume withdraws it",
                )
            progress(f"waiting for the epoch of lane {', '.join(late)}")
            time.sleep(LOOK_SECONDS)


def resume(settings: Settings) -> Pause | None:
    """Withdraw the pause; returns it, None: there was none."""
    pauses = Pauses(settings.target.db_schema, settings.lane)
    with _connected(settings) as connection, connection.begin():
        found = pauses.find(connection)
        pauses.withdraw(connection)
    return found


@contextmanager
def _connected(settings: Settings) -> Iterator[Connection]:
    engine = make_engine(settings.target.url, settings.target.owner_role, "surelane pause")
    try:
        with translated("pause: the target"), engine.connect() as connection:
            with connection.begin():
                check_revision(connection, settings.target.db_schema)
            yield connection
    finally:
        engine.dispose()
