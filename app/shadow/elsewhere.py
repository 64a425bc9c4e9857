"""Shadow copies in another database: the second lane writes its configured tables there, and nothing is moved.

The row of the copy is in the original's database, where it keeps the original lane from running after the switch. The
second lane's ledger is in its own. A switch pauses the original, waits for the common position, and changes the row;
who reads the tables is pointed to the other database then.
"""

import datetime
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from app.apply.order_plan import parents_first
from app.apply.target_tables import TargetTable, load_table
from app.config.routes import Routes
from app.config.settings import Settings
from app.db.sql import quoted, run
from app.db.sqlstate import CommitLost, describe
from app.errors import Refused, Unreachable
from app.kafka.broker import Broker
from app.ledger.connection import connected
from app.ledger.held_lanes import held_lanes
from app.ledger.shadow_copies import ShadowCopies, ShadowCopy, ShadowState
from app.ledger.store import Ledger
from app.model.offsets import Offsets
from app.replay.rebuilt_tables import OriginalTable, originals
from app.savepoint.savepoint import Savepoint
from app.shadow.creating import (
    APPLICATION,
    Created,
    begin_lane,
    beginnings,
    check_configuration,
    check_empty,
    columns_of,
    has_copy,
    last_of,
)
from app.shadow.switching import (
    ShadowStatus,
    Switched,
    check_not_behind,
    check_settled,
    find,
    lock,
    paused,
    resume,
    wait_until_equal,
    wait_until_near,
)

#: bytes handed from one database to the other at once
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class _Both:
    """Connections to the original's database and to the copy's."""

    original: Connection
    copy: Connection


@contextmanager
def _both(new: Settings, old: Settings) -> Iterator[_Both]:
    connections: list[Connection] = []
    with ExitStack() as stack:
        for settings, what in ((old, "the original's database"), (new, "the copy's database")):
            connections.append(stack.enter_context(connected(settings, APPLICATION, f"shadow: {what}")))
        yield _Both(*connections)


def create(
    new: Settings, old: Settings, savepoint: Savepoint, *, from_topics: bool, by: str, progress: Callable[[str], None]
) -> Created:
    """Fill the tables of the second lane's target from those of `old`, in one transaction of each database. Raises
    Refused, with nothing changed; a killed call leaves a copy that `dispose` removes."""
    if savepoint.lane != old.lane:
        raise Refused(f"savepoint {savepoint.name} is of lane {savepoint.lane}, --original of lane {old.lane}")
    check_configuration(new, savepoint, from_topics=from_topics, elsewhere=True)
    with _both(new, old) as both, Broker(new.source) as broker:
        _check_other(both, new, old)
        pins = broker.cluster_id(), broker.topic_ids()
        start = beginnings(broker) if from_topics else Offsets()
        copies = ShadowCopies(old.target.db_schema)
        with both.original.begin():
            if copies.find(both.original, new.lane) is not None:  # its tables have rows, and it needs them
                raise has_copy(new.lane, old.lane)
            found = originals(both.original, old)
        tables = _tables(both, new, found)
        copy = ShadowCopy(
            lane=new.lane,
            original=old.lane,
            savepoint=savepoint.name,
            copy_schema=None,
            old_schema=None,
            url=new.target.url.set(password=None).render_as_string(),
            old_tables=[one.name for one in found],
            new_tables=[(one.schema, one.name) for one in tables],
            state=ShadowState.FOLLOWING,
            by=by,
            at=datetime.datetime.now(datetime.UTC),
        )
        with both.original.begin():
            if not copies.add(both.original, copy):
                raise has_copy(new.lane, old.lane)
        try:
            with both.copy.begin(), both.original.begin():
                run(both.original, "set transaction isolation level repeatable read")
                last = last_of(both.original, old)
                Ledger(old.target.db_schema, old.lane).pin(both.original, *pins)
                rows = {} if from_topics else _fill(both, tables, progress)
                position = start if from_topics else last.span.end
                begin_lane(both.copy, new, position, {} if from_topics else last.last, pins)
        except CommitLost as error:  # of the one or of the other: what is there keeps its row
            raise Unreachable(
                f"the copy of lane {old.lane} is made, or not: the connection was lost at COMMIT: {describe(error)}",
                hint="surelane shadow dispose removes what there is of it; then this again",
            ) from error
        except BaseException:
            with both.original.begin():
                copies.remove(both.original, copy.lane)
            raise
    return Created(copy=copy, position=position, rows=rows, left_out=())


def status(new: Settings, old: Settings) -> ShadowStatus | None:
    with _both(new, old) as both, both.original.begin(), both.copy.begin():
        copy = ShadowCopies(old.target.db_schema).find(both.original, new.lane)
        return None if copy is None else _status(both, new, old, copy)


def switch(new: Settings, old: Settings, by: str, *, seconds: float, progress: Callable[[str], None]) -> Switched:
    """Let the second lane take the original's place: that one stops, and may not start. Raises Refused, with the
    original going on."""
    with _both(new, old) as both:
        copy = _found(both, new, old, ShadowState.FOLLOWING)

        def look() -> ShadowStatus:
            with both.original.begin(), both.copy.begin():
                return _status(both, new, old, copy)

        wait_until_near(look, new.epoch.max_messages, progress)
        begun, reason = time.monotonic(), f"shadow switch to {copy.lane}"
        with paused(both.original, old, by, reason, seconds, progress):
            found = wait_until_equal(look, begun + seconds, progress)
            with both.original.begin(), both.copy.begin():
                lock(both.original, old.target.db_schema, copy.lane, ShadowState.FOLLOWING)
                check_settled(both.original, (copy.original,))
                check_not_behind(_status(both, new, old, copy))
                ShadowCopies(old.target.db_schema).set_state(both.original, copy.lane, ShadowState.SWITCHED)
                resume(both.original, old, (copy.original,))
        return Switched(
            copy=copy,
            original=found.original,
            position=found.position,
            paused_seconds=time.monotonic() - begun,
        )


def undo(new: Settings, old: Settings) -> Switched:
    """The original lane may start again, at its own ledger's end; the second one goes on beside it."""
    with _both(new, old) as both:
        copy = _found(both, new, old, ShadowState.SWITCHED)
        with both.original.begin(), both.copy.begin():
            lock(both.original, old.target.db_schema, copy.lane, ShadowState.SWITCHED)
            ShadowCopies(old.target.db_schema).set_state(both.original, copy.lane, ShadowState.FOLLOWING)
            found = _status(both, new, old, copy)
        return Switched(copy=copy, original=found.original, position=found.position, paused_seconds=0.0)


def dispose(new: Settings, old: Settings) -> ShadowCopy:
    """After a switch: end the way back. Before one: give the second lane up. No table is dropped."""
    # the copy's COMMIT comes first: without the row a second call would not find what is left there
    with _both(new, old) as both, both.original.begin(), both.copy.begin():
        copies = ShadowCopies(old.target.db_schema)
        copy = copies.lock(both.original, new.lane)
        if copy is None or copy.url is None or copy.state is ShadowState.DISPOSED:
            raise _no_copy(new)
        if copy.state is ShadowState.SWITCHED:
            copies.set_state(both.original, copy.lane, ShadowState.DISPOSED)
            return copy
        if held := held_lanes(both.copy, new.target.db_schema, copy.lane, several=False):
            raise Refused(f"lane {copy.lane} runs (backend {held[copy.lane]})", hint="stop it first")
        check_settled(both.copy, (copy.lane,))
        Ledger(new.target.db_schema, copy.lane).forget(both.copy)
        copies.remove(both.original, copy.lane)
        return copy


def _check_other(both: _Both, new: Settings, old: Settings) -> None:
    """Raises Refused where both configurations name one database."""
    with both.copy.begin():
        same = Ledger(old.target.db_schema, old.lane).last(both.copy) is not None
    if same:
        raise Refused(
            f"the target of lane {new.lane} has the ledger of lane {old.lane}: it is its database, or a copy of it",
            hint="--into SCHEMA makes a copy in the same database",
        )


def _tables(both: _Both, new: Settings, found: Sequence[OriginalTable]) -> list[TargetTable]:
    """The copy's tables, those that foreign keys reference first. Raises Refused where one is not there, or has
    rows."""
    routes = Routes(new.target.tables)
    names = [one.name for one in found if routes.reaches(*one.name)]
    with both.copy.begin():
        tables = {name: load_table(both.copy, *name) for name in names}
        if lacking := [".".join(name) for name, table in tables.items() if table is None]:
            raise Refused(
                f"the copy's database has no table {', '.join(lacking)}",
                hint="make them there, empty: pg_dump --schema-only of the original's, changed as you wish",
            )
        made = [table for table in tables.values() if table is not None]
        check_empty(both.copy, made)
    return parents_first(made)


def _fill(both: _Both, tables: Sequence[TargetTable], progress: Callable[[str], None]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for number, table in enumerate(tables, 1):
        progress(f"table {number} of {len(tables)}: {table}")
        source = load_table(both.original, table.schema, table.name)
        assert source is not None, "just found"
        names = ", ".join(quoted(one.name) for one in columns_of(table, source))
        out = f"copy (select {names} from {source.quoted_name}) to stdout"  # noqa: S608  # quoted
        rows[str(table)] = _stream(both, out, f"copy {table.quoted_name} ({names}) from stdin")
    return rows


def _stream(both: _Both, out: str, into: str) -> int:
    """COPY from one database to the other; returns how many rows the copy's took."""
    reading, writing = os.pipe()
    failures: list[BaseException] = []

    def read() -> None:
        source: Any = both.original.connection.dbapi_connection
        with os.fdopen(writing, "wb") as file, source.cursor() as cursor:
            try:
                cursor.copy_expert(out, file, _CHUNK_BYTES)
            except BaseException as error:  # noqa: BLE001  # raised by the caller's thread
                failures.append(error)

    thread = threading.Thread(target=read, name="copy from the original")
    thread.start()
    try:
        target: Any = both.copy.connection.dbapi_connection
        with os.fdopen(reading, "rb") as file, target.cursor() as cursor:
            cursor.copy_expert(into, file, _CHUNK_BYTES)
            count = cursor.rowcount
    finally:
        thread.join()
    if failures:
        raise failures[0]
    return count


def _no_copy(new: Settings) -> Refused:
    return Refused(
        f"lane {new.lane} has no shadow copy of --original",
        hint="--config names the new configuration, --original that of the lane whose tables were copied",
    )


def _found(both: _Both, new: Settings, old: Settings, state: ShadowState) -> ShadowCopy:
    return find(both.original, old.target.db_schema, new.lane, state, _no_copy(new), elsewhere=True)


def _status(both: _Both, new: Settings, old: Settings, copy: ShadowCopy) -> ShadowStatus:
    """In a transaction of each database."""
    mine = Ledger(new.target.db_schema, copy.lane).last(both.copy)
    original = Ledger(old.target.db_schema, copy.original).last(both.original)
    return ShadowStatus(
        copy=copy,
        original=original.span.end if original else Offsets(),
        position=mine.span.end if mine else Offsets(),
    )
