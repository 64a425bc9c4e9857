"""Switches a lane's tables and its shadow copy, back again, and drops what is not in use."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, OperationalError

from app.config.settings import Settings
from app.db.prepared import gids
from app.db.sql import literal, quoted, run
from app.db.sqlstate import LOCK_NOT_AVAILABLE, describe, sqlstate
from app.errors import Refused, Unreachable
from app.ledger.connection import connected
from app.ledger.held_lanes import held_lanes
from app.ledger.pauses import Pauses
from app.ledger.shadow_copies import ShadowCopies, ShadowCopy, ShadowState, TableName
from app.ledger.store import Ledger
from app.model.offsets import Offsets
from app.recover.pausing import pause
from app.shadow.creating import APPLICATION
from app.verify.pairs import OWN_MARK

#: seconds between two looks at the position of the copy
LOOK_SECONDS = 0.1
#: offsets, and epochs of its lane, that the copy may be behind when the original is paused: the smaller of the two
NEAR = 10_000
NEAR_EPOCHS = 4
#: milliseconds to wait for the locks of the tables
LOCK_MS = 3_000
#: views, and foreign keys from other tables, know a table by its oid: they go where it goes
_DEPENDENTS = text("""
    select distinct case v.relkind when 'v' then 'view ' else 'materialized view ' end || v.oid::regclass as name
    from pg_depend d join pg_rewrite r on r.oid = d.objid and d.classid = 'pg_rewrite'::regclass
    join pg_class v on v.oid = r.ev_class and v.relkind in ('v', 'm')
    where d.refclassid = 'pg_class'::regclass and d.refobjid = any(:oids)
    union
    select 'foreign key ' || conname || ' of ' || conrelid::regclass from pg_constraint
    where contype = 'f' and confrelid = any(:oids) and conrelid <> all(:oids)
    order by 1
""")
_OIDS = text("""
    select c.oid from unnest(cast(:schemas as text[]), cast(:tables as text[])) as t(schema_name, table_name)
    join pg_namespace n on n.nspname = t.schema_name
    join pg_class c on c.relnamespace = n.oid and c.relname = t.table_name
""")
#: sequences of the two tables' columns, by column
_SEQUENCES = text("""
    select a.attname, pg_get_serial_sequence(cast(:old as text), a.attname) as old,
           pg_get_serial_sequence(cast(:new as text), a.attname) as new
    from pg_attribute a join pg_attribute b on b.attname = a.attname and b.attrelid = cast(:old as regclass)
    where a.attrelid = cast(:new as regclass) and a.attnum > 0 and not a.attisdropped
""")


@dataclass(frozen=True, kw_only=True)
class Switched:
    copy: ShadowCopy
    #: where both lanes were
    original: Offsets
    position: Offsets
    #: seconds in which no lane wrote the tables
    paused_seconds: float


@dataclass(frozen=True, kw_only=True)
class ShadowStatus:
    copy: ShadowCopy
    original: Offsets
    position: Offsets

    @property
    def behind(self) -> int:
        """Offsets that the original has applied and the copy has not."""
        return self.position.left_to(self.original)


def status(settings: Settings) -> ShadowStatus | None:
    """The copy in which the lane of `settings` has a part. Raises Refused for one in another database."""
    with connected(settings, APPLICATION, "shadow: the target") as connection, connection.begin():
        copy = ShadowCopies(settings.target.db_schema).of(connection, settings.lane)
        if copy is None:
            return None
        _check_here(copy)
        return _status(connection, settings, copy)


def switch(settings: Settings, by: str, *, seconds: float, progress: Callable[[str], None]) -> Switched:
    """Give the copy the original tables' names. `settings`: of the second lane; `seconds`: how long the original may be
    paused. Raises Refused, with both lanes going on as before."""
    with connected(settings, APPLICATION, "shadow: the target") as connection:
        copy = _found(connection, settings, ShadowState.FOLLOWING)
        copy_schema, old_schema = copy.schemas
        _check_dependents(connection, copy)

        def look() -> ShadowStatus:
            with connection.begin():
                return _status(connection, settings, copy)

        wait_until_near(look, settings.epoch.max_messages, progress)
        begun = time.monotonic()
        reason = f"shadow switch to {copy.lane}"
        original = settings.model_copy(update={"lane": copy.original})
        with paused(connection, original, by, reason, seconds, progress):
            found = wait_until_equal(look, begun + seconds, progress)

            def swap() -> None:
                _lock(connection, settings, copy, ShadowState.FOLLOWING)
                _sequences(connection, copy)
                _move(connection, copy.old_tables, old_schema, back=False)
                _move(connection, copy.new_tables, copy_schema, back=True)
                check_not_behind(_status(connection, settings, copy))
                ShadowCopies(settings.target.db_schema).set_state(connection, copy.lane, ShadowState.SWITCHED)
                resume(connection, settings, (copy.original, copy.lane))

            with paused(connection, settings, by, reason, seconds, progress):
                _until_locked(connection, swap, begun + seconds, progress)
        return Switched(
            copy=copy,
            original=found.original,
            position=found.position,
            paused_seconds=time.monotonic() - begun,
        )


def undo(settings: Settings, by: str, *, seconds: float, progress: Callable[[str], None]) -> Switched:
    """Give the original tables their names back. The original lane may start again, at its own ledger's end; the second
    one goes on with its copy."""
    with connected(settings, APPLICATION, "shadow: the target") as connection:
        copy = _found(connection, settings, ShadowState.SWITCHED)
        copy_schema, old_schema = copy.schemas
        begun = time.monotonic()

        def swap_back() -> None:
            _lock(connection, settings, copy, ShadowState.SWITCHED)
            _move(connection, copy.new_tables, copy_schema, back=False)
            _move(connection, copy.old_tables, old_schema, back=True)
            ShadowCopies(settings.target.db_schema).set_state(connection, copy.lane, ShadowState.FOLLOWING)
            resume(connection, settings, (copy.lane,))

        with paused(connection, settings, by, f"shadow undo of {copy.lane}", seconds, progress):
            _until_locked(connection, swap_back, begun + seconds, progress)
        with connection.begin():
            found = _status(connection, settings, copy)
        return Switched(
            copy=copy,
            original=found.original,
            position=found.position,
            paused_seconds=time.monotonic() - begun,
        )


def dispose(settings: Settings) -> tuple[ShadowCopy, list[str]]:
    """Drop the original tables after a switch, the copy and the second lane's ledger before one. Returns the copy, and
    the names of the dropped tables."""
    with connected(settings, APPLICATION, "shadow: the target") as connection, connection.begin():
        schema = settings.target.db_schema
        copies = ShadowCopies(schema)
        copy = copies.lock(connection, settings.lane)
        if copy is None or copy.state is ShadowState.DISPOSED:
            raise _no_copy(settings)
        _check_here(copy)
        copy_schema, old_schema = copy.schemas
        if copy.state is ShadowState.SWITCHED:
            gone, tables = old_schema, copy.old_tables
        else:
            gone, tables = copy_schema, copy.new_tables
            if held := held_lanes(connection, schema, copy.lane, several=False):
                raise Refused(f"lane {copy.lane} runs (backend {held[copy.lane]})", hint="stop it first")
            check_settled(connection, (copy.lane,))
            Ledger(schema, copy.lane).forget(connection)
        names = [f"{quoted(gone)}.{quoted(table)}" for _, table in tables]
        run(connection, f"set local lock_timeout = '{LOCK_MS}ms'")
        run(connection, f"drop table if exists {', '.join(names)}")
        run(connection, f"drop schema if exists {quoted(gone)} restrict")
        if copy.state is ShadowState.SWITCHED:
            copies.set_state(connection, copy.lane, ShadowState.DISPOSED)
        else:
            copies.remove(connection, copy.lane)
        return copy, names


def _check_here(copy: ShadowCopy) -> None:
    """Raises Refused where the copy is in another database: its lane's ledger is there."""
    if copy.url is not None:
        raise Refused(
            f"the copy that lane {copy.lane} fills is in another database: {copy.url}",
            hint=f"--config names the configuration of lane {copy.lane}, --original that of lane {copy.original}",
        )


def _no_copy(settings: Settings) -> Refused:
    return Refused(
        f"lane {settings.lane} has no shadow copy",
        hint="--config names the new configuration, of the lane that fills the copy; surelane shadow create makes one",
    )


def find(
    connection: Connection, schema: str, lane: str, state: ShadowState, missing: Refused, *, elsewhere: bool = False
) -> ShadowCopy:
    """The copy that `lane` fills, in this state; `schema`: of its row; `elsewhere`: in another database. Raises
    `missing` where there is none."""
    with connection.begin():
        copy = ShadowCopies(schema).find(connection, lane)
    if copy is None or (copy.url is not None) is not elsewhere or copy.state is ShadowState.DISPOSED:
        raise missing
    if copy.state is not state:
        was = "has been switched to" if copy.state is ShadowState.SWITCHED else "has not been switched to"
        hint = "surelane shadow undo goes back" if copy.state is ShadowState.SWITCHED else "surelane shadow switch"
        raise Refused(f"the copy of lane {copy.lane} {was}", hint=hint)
    return copy


def _found(connection: Connection, settings: Settings, state: ShadowState) -> ShadowCopy:
    return find(connection, settings.target.db_schema, settings.lane, state, _no_copy(settings))


def _status(connection: Connection, settings: Settings, copy: ShadowCopy) -> ShadowStatus:
    lasts = [Ledger(settings.target.db_schema, lane).last(connection) for lane in (copy.original, copy.lane)]
    original, mine = (one.span.end if one else Offsets() for one in lasts)
    return ShadowStatus(copy=copy, original=original, position=mine)


def wait_until_near(look: Callable[[], ShadowStatus], epoch: int, progress: Callable[[str], None]) -> None:
    """Wait until the copy, whose epochs have up to `epoch` messages, is not far behind. The lanes run; Ctrl-C ends the
    wait, and changes nothing."""
    while (found := look()).behind > min(NEAR, NEAR_EPOCHS * epoch):
        progress(f"lane {found.copy.lane} is {found.behind:,} offsets behind lane {found.copy.original}")
        time.sleep(LOOK_SECONDS)


def wait_until_equal(
    look: Callable[[], ShadowStatus], deadline: float, progress: Callable[[str], None]
) -> ShadowStatus:
    """Wait until the copy has all that the paused original has applied; raises Refused after the deadline, of
    `time.monotonic`."""
    while (found := look()).behind:
        if time.monotonic() > deadline:
            raise Refused(
                f"lane {found.copy.lane} is still {found.behind:,} offsets behind lane {found.copy.original}: "
                "does it run?",
                hint="nothing was changed, both lanes go on; --max-pause gives it more",
            )
        progress(f"lane {found.copy.lane} is {found.behind:,} offsets behind")
        time.sleep(LOOK_SECONDS)
    return found


def check_not_behind(found: ShadowStatus) -> None:
    """Raises Refused for an epoch that the original had begun before it was paused."""
    if found.behind:
        raise Refused(f"lane {found.copy.original} has applied more meanwhile", hint="call it again")


@contextmanager
def paused(
    connection: Connection, settings: Settings, by: str, reason: str, seconds: float, progress: Callable[[str], None]
) -> Iterator[None]:
    """The lane of `settings` is paused. It goes on where the block raises; else the block has ended the pause."""
    pauses = Pauses(settings.target.db_schema, settings.lane)
    with connection.begin():
        if (found := pauses.find(connection)) and found.reason != reason:
            raise Refused(f"lane {settings.lane} is {found}", hint="surelane resume first")
    try:
        pause(settings, by, reason, seconds, progress)
        yield
    except BaseException:
        try:
            with connection.begin():
                pauses.withdraw(connection)
        except DBAPIError as error:
            raise Unreachable(
                f"lane {settings.lane} may still be paused, for: {reason}; {describe(error)}",
                hint="when the target answers: surelane shadow status says whether it was done, surelane resume, with "
                f"the configuration of lane {settings.lane}, ends the pause",
            ) from error
        raise


def resume(connection: Connection, settings: Settings, lanes: Iterable[str]) -> None:
    for lane in lanes:
        Pauses(settings.target.db_schema, lane).withdraw(connection)


def lock(connection: Connection, schema: str, lane: str, state: ShadowState) -> None:
    """Lock the row of the copy, and check that it is still in this state."""
    locked = ShadowCopies(schema).lock(connection, lane)
    if locked is None or locked.state is not state:
        raise Refused("another command has changed the copy meanwhile", hint="surelane shadow status")


def _lock(connection: Connection, settings: Settings, copy: ShadowCopy, state: ShadowState) -> None:
    """The same, before tables are moved: no lane has a prepared transaction."""
    lock(connection, settings.target.db_schema, copy.lane, state)
    check_settled(connection, (copy.lane, copy.original))
    run(connection, f"set local lock_timeout = '{LOCK_MS}ms'")


def check_settled(connection: Connection, lanes: tuple[str, ...]) -> None:
    if left := [str(gid) for gid in gids(connection) if any(gid.is_of(lane) for lane in lanes)]:
        raise Refused(
            f"a lane has left prepared transactions: {', '.join(left)}",
            hint="its next start settles them: surelane run --until-caught-up, then this again",
        )


def _check_dependents(connection: Connection, copy: ShadowCopy) -> None:
    """Raises Refused for views and foreign keys that would go on with the original tables."""
    schemas, tables = zip(*copy.old_tables, strict=True)
    with connection.begin():
        oids = connection.execute(_OIDS, {"schemas": list(schemas), "tables": list(tables)}).scalars().all()
        found = connection.execute(_DEPENDENTS, {"oids": list(oids)}).scalars().all()
    if found:
        raise Refused(
            f"these would go on reading the original tables: {', '.join(found)}",
            hint="drop them, and make them anew after the switch",
        )


def _until_locked(
    connection: Connection, swap: Callable[[], None], deadline: float, progress: Callable[[str], None]
) -> None:
    """Run `swap` in a transaction, again while a session keeps a table locked for LOCK_MS, up to the deadline."""
    while True:
        try:
            with connection.begin():
                swap()
            return
        except OperationalError as error:
            if sqlstate(error) != LOCK_NOT_AVAILABLE or time.monotonic() > deadline:
                raise
            progress("another session has a table locked: trying again")
            time.sleep(LOOK_SECONDS)


def _sequences(connection: Connection, copy: ShadowCopy) -> None:
    """Give the sequences of the copy's columns the originals' values."""
    copy_schema, _ = copy.schemas
    for schema, table in copy.new_tables:
        if (schema, table) not in copy.old_tables:
            continue
        old, new = (f"{quoted(where)}.{quoted(table)}" for where in (schema, copy_schema))
        for row in connection.execute(_SEQUENCES, {"old": old, "new": new}).all():
            if row.old is not None and row.new is not None:
                run(connection, f"select setval({literal(row.new)}, last_value, is_called) from {row.old}")  # noqa: S608


def _move(connection: Connection, tables: Iterable[TableName], other: str, *, back: bool) -> None:
    """Move tables from their schemas to `other`; `back`: from there."""
    if not back:
        run(connection, f"create schema if not exists {quoted(other)}")
        run(connection, f"comment on schema {quoted(other)} is {literal(f'{OWN_MARK}tables of a shadow copy')}")
    for schema, table in tables:
        here, there = (other, schema) if back else (schema, other)
        run(connection, f"alter table {quoted(here)}.{quoted(table)} set schema {quoted(there)}")
