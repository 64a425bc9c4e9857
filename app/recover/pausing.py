"""Pauses a lane, or a table of it, and resumes it: the pause is a row in the target, which each process obeys."""

import time
from collections.abc import Callable

from sqlalchemy import Connection

from app.config.routes import RouteInvalid, Routes, halves
from app.config.settings import Settings
from app.errors import Refused
from app.ledger.connection import connected
from app.ledger.held_lanes import held_lanes
from app.ledger.pauses import BY_ITSELF, PAUSED, Pause, Pauses
from app.ledger.store import Ledger
from app.ledger.table_pauses import TablePause, TablePauses
from app.quarantine.paused_tables import parked_messages
from app.quarantine.quarantine import Quarantine

#: seconds between two checks whether the lanes have paused
LOOK_SECONDS = 0.2
#: seconds in which a lane that tries again after a failure is not seen running
BETWEEN_RUNS_SECONDS = 5.0
_APPLICATION = "surelane pause"


def pause(
    settings: Settings, by: str, reason: str | None, seconds: float, progress: Callable[[str], None]
) -> tuple[Pause, list[str]]:
    """Pause the lane, and wait until each of its running writers has: then no epoch is in process and nothing is
    prepared. Returns the pause, and the running lanes. Raises Refused after `seconds`; the pause stays."""
    pauses, schema = Pauses(settings.target.db_schema, settings.lane), settings.target.db_schema
    deadline = time.monotonic() + seconds
    with connected(settings, _APPLICATION, "pause: the target") as connection:
        with connection.begin():
            pauses.place(connection, by, reason)
            found = pauses.find(connection)
        assert found is not None, "just placed"
        while True:
            with connection.begin():
                held = held_lanes(connection, schema, settings.lane, several=settings.source.is_by_partition)
                states = {name: Ledger(schema, name).state(connection) for name in held}
            obeys = PAUSED, found.token
            late = [name for name, one in states.items() if one is None or (one.state, one.waits_for) != obeys]
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
    with connected(settings, _APPLICATION, "pause: the target") as connection, connection.begin():
        found = pauses.find(connection)
        pauses.withdraw(connection)
    return found


def pause_table(
    settings: Settings, name: str, by: str, reason: str | None, seconds: float, progress: Callable[[str], None]
) -> tuple[TablePause, list[str]]:
    """Have all later changes of a target table parked, and wait until the running lane does that. Returns the pause,
    and the running lane. Raises Refused after `seconds`; the pause stays."""
    schema, table = _place(settings, name)
    pauses = TablePauses(settings.target.db_schema, settings.lane)
    deadline = time.monotonic() + seconds
    with connected(settings, _APPLICATION, "pause: the target") as connection:
        with connection.begin():
            pauses.place(connection, schema, table, by, reason)
        while True:
            with connection.begin():
                found = _find(pauses, connection, schema, table)
                running = _running(connection, settings)
                state = Ledger(settings.target.db_schema, settings.lane).state(connection)
            if found is None:
                raise Refused(f"the pause of {name} was ended meanwhile")
            if found.is_taken_up or not running or (state is not None and state.state == PAUSED):
                return found, running
            if time.monotonic() > deadline:
                raise Refused(
                    f"the lane does not park the changes of {name} within {seconds:g} s",
                    hint="the pause stays: the lane obeys it at its epoch's end; surelane resume --table ends it",
                )
            progress(f"waiting for the epoch of lane {settings.lane}")
            time.sleep(LOOK_SECONDS)


def resume_table(
    settings: Settings, name: str, by: str, seconds: float, progress: Callable[[str], None]
) -> tuple[TablePause | None, list[str], int]:
    """Have the lane apply what is parked of a table, in order, and its later changes again; wait until it has. Returns
    the pause (None: there was none), the running lane, and how many messages of the table are parked now. Raises
    Refused after `seconds`; the lane goes on with it."""
    schema, table = _place(settings, name)
    pauses, deadline = TablePauses(settings.target.db_schema, settings.lane), time.monotonic() + seconds
    with connected(settings, _APPLICATION, "pause: the target") as connection:
        with connection.begin():
            before = _find(pauses, connection, schema, table)
            pauses.resume(connection, schema, table, by)
            lane_pause = Pauses(settings.target.db_schema, settings.lane)
            if before is not None and (found := lane_pause.find(connection)) and found.by == BY_ITSELF:
                lane_pause.withdraw(connection)
        last_seen = time.monotonic()
        while True:
            with connection.begin():
                left, running = _parked(connection, settings, schema, table), _running(connection, settings)
                is_over = _find(pauses, connection, schema, table) is None
            now = time.monotonic()
            last_seen = now if running else last_seen
            if is_over or (not running and (not left or now - last_seen > BETWEEN_RUNS_SECONDS)):
                return before, running, left
            if now > deadline:
                raise Refused(
                    f"the lane has not applied all that is parked of {name} within {seconds:g} s: {left:,} messages",
                    hint="it goes on with it, unless it is paused as a whole; surelane status shows it",
                )
            progress(f"{left:,} messages are parked")
            time.sleep(LOOK_SECONDS)


def _place(settings: Settings, name: str) -> tuple[str, str]:
    if settings.source.is_by_partition:
        raise Refused(
            "a single table is paused only with source.order: total",
            hint="surelane pause lets all lanes of the configuration apply nothing",
        )
    try:
        schema, table = halves(name, "target")
    except RouteInvalid as error:
        raise Refused(error.problem, hint="write it like --table public.orders") from None
    if not Routes(settings.target.tables, settings.target.db_schema).reaches(schema, table):
        raise Refused(
            f"no route of target.tables leads to {name}", hint="name the table of the target, not the source's"
        )
    return schema, table


def _find(pauses: TablePauses, connection: Connection, schema: str, table: str) -> TablePause | None:
    return next((one for one in pauses.find(connection) if (one.schema, one.table) == (schema, table)), None)


def _running(connection: Connection, settings: Settings) -> list[str]:
    return list(held_lanes(connection, settings.target.db_schema, settings.lane, several=False))


def _parked(connection: Connection, settings: Settings, schema: str, table: str) -> int:
    routes, quarantine = Routes(settings.target.tables), Quarantine(settings.target.db_schema, settings.lane)
    return parked_messages(connection, quarantine, routes)[schema, table]
