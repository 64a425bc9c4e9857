"""Staging tables: UNLOGGED tables that belong to the lane.

A staging table belongs to one lane and one shape of message. Its rows are written, read and deleted in the epoch's own
transaction, so no other session sees them; those that tasks copy (`app.stage`) are committed before, in tables that
only the lane reads. VACUUM between epochs gives the space back: TRUNCATE makes new files, which have to reach the disk,
and waits for all else that the file system has to write.
"""

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from app.apply.conversion import instant_unit, staged_type
from app.apply.encoding import Encoding
from app.apply.target_tables import Column, TargetTable
from app.db.locks import terminate
from app.db.sql import quoted, run
from app.db.sqlstate import LOCK_NOT_AVAILABLE, sqlstate
from app.epoch.staging_copy import CopyLines, copy_lines
from app.model.arrow import compute

#: ordinal of the change within the epoch; filled for the faithful plan only. Where a table has a column of this name
#: it gets another one: see `Staging.ordinal`
ORDINAL = "surelane_ordinal"
#: source time (milliseconds since 1970) and position of a change, for tables with history or soft delete
STAMPS = {
    "surelane_ts": "bigint",
    "surelane_topic": "text",
    "surelane_partition": "int",
    "surelane_offset": "bigint",
}
#: columns of a table, without ordinal and STAMPS
MOST_FIELDS = 1595
#: name prefix of the columns with microseconds since 1970
MICROS = "surelane_micros"
#: characters of the lane's name in a staging table's name, which has to stay below 64 with both hashes
LANE_SHOWN = 24
#: bytes of lines written to a staging table before its space is given back
RECLAIM_AFTER_BYTES = 4 << 20
#: bytes that VACUUM may leave of one, while an old snapshot of another session keeps it from removing dead rows
KEEP_BYTES = 64 << 20

#: milliseconds to wait for a table's lock
UNLOCKED_MS = 50
#: bytes of a row up to which Postgres keeps its values inline, as many as a page takes: it is read once, soon
INLINE_BYTES = 8160
#: of a staging table: its space is given back by `app.apply.staging_vacuum` and TRUNCATE, and no plan depends on its
#: statistics
_NO_AUTOVACUUM = "autovacuum_enabled = off, toast.autovacuum_enabled = off"
#: columns whose values Postgres would compress first; the target's columns do that
_TOASTED = text("""
    select attname from pg_attribute where attrelid = to_regclass(:name) and attnum > 0 and attstorage = 'x'
""")
_LARGE = text("select name from unnest(cast(:names as text[])) name where pg_table_size(name::regclass) > :most")
_STAGING_TABLES = text("""
    select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = :schema and c.relkind = 'r' and c.relpersistence = 'u' and starts_with(c.relname, :prefix)
""")
_USERS = text("""
    select distinct l.pid from pg_locks l
    join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace
    where l.database = (select oid from pg_database where datname = current_database()) and l.pid <> pg_backend_pid()
      and n.nspname = :schema and c.relkind = 'r' and c.relpersistence = 'u' and starts_with(c.relname, :prefix)
""")


@dataclass(frozen=True)
class Field:
    """One staged column: its target column, and the encoding of its text."""

    column: Column
    encoding: Encoding


class Micros(NamedTuple):
    """A column for microseconds since 1970."""

    #: quoted
    column: str
    #: see `app.apply.conversion.instant_unit`
    unit: int


@dataclass
class Staging:
    """One staging table. `dirty` counts bytes of lines written since its space was given back."""

    #: quoted, with schema
    name: str
    fields: tuple[Field, ...]
    #: quoted name of the column with the ordinal
    ordinal: str = quoted(ORDINAL)
    #: quoted names of the columns with source time and position, as `EpochBatch.stamps` has them; empty: there are none
    stamps: tuple[str, ...] = ()
    #: name of a column whose values are points in time -> the one that may have their microseconds
    instants: Mapping[str, Micros] = field(default_factory=dict)
    dirty: int = 0


def prefix(lane: str) -> str:
    """Name prefix of the lane's staging tables, and of no other lane's: `orders` must not take `orders_eu`'s."""
    return f"stage_{lane[:LANE_SHOWN]}_{hashlib.sha256(lane.encode()).hexdigest()[:8]}_"


def drop_all(connection: Connection, schema: str, lane: str) -> None:
    """Drop the lane's staging tables, also those that an older version made; for the one writer of the lane.

    A session that still uses one is an earlier writer's, and is ended: its COPY may wait for a client that is gone.
    """
    parameters = {"schema": schema, "prefix": prefix(lane)}
    for pid in connection.execute(_USERS, parameters).scalars().all():
        terminate(connection, pid)
    for name in connection.execute(_STAGING_TABLES, parameters).scalars().all():
        run(connection, f"drop table {quoted(schema)}.{quoted(name)}")


def drop(connection: Connection, names: Iterable[str]) -> None:
    if quoted_names := ", ".join(names):
        run(connection, f"drop table if exists {quoted_names}")


def drop_unlocked(connection: Connection, names: Sequence[str]) -> list[str]:
    """Drop these staging tables, on a connection that commits each statement; returns those that a session has
    locked."""
    locked: list[str] = []
    for name in names:
        try:
            run(connection, f"set lock_timeout = '{UNLOCKED_MS}ms'; drop table if exists {name}; reset lock_timeout")
        except OperationalError as error:
            if sqlstate(error) != LOCK_NOT_AVAILABLE:
                raise
            locked.append(name)
    return locked


def free(name: str, taken: Container[str]) -> str:
    """This name, with underscores behind it until it is not taken."""
    while name in taken:
        name += "_"
    return name


def create(
    connection: Connection,
    schema: str,
    lane: str,
    target: TargetTable,
    fields: tuple[Field, ...],
    own: str = "",
    *,
    stamped: bool = False,
) -> Staging:
    """Create the staging table for this shape of message. `own` distinguishes tables of one shape, which are lent:
    their points in time, but for those of the key, have another column, for microseconds; `stamped`: with source time
    and position of each change."""
    shape = repr((str(target), [(field.column, field.encoding) for field in fields], own, *(["stamped"] * stamped)))
    name = f"{quoted(schema)}.{quoted(prefix(lane) + hashlib.sha256(shape.encode()).hexdigest()[:12])}"
    columns = [f"{quoted(f.column.name)} {staged_type(f.column, f.encoding)}" for f in fields]
    taken = {f.column.name for f in fields}
    ordinal = quoted(free(ORDINAL, taken))
    stamps = {quoted(free(name, taken)): kind for name, kind in STAMPS.items()} if stamped else {}
    instants = {
        one.column.name: Micros(quoted(free(f"{MICROS}_{number}", taken)), unit)
        for number, one in enumerate(fields)
        if own and one.column.name not in target.key and (unit := instant_unit(one.column, one.encoding)) is not None
    }
    if len(fields) + len(instants) > MOST_FIELDS:
        instants = {}
    before = [f"{ordinal} bigint", *(f"{name} {kind}" for name, kind in stamps.items())]
    columns = ", ".join([*before, *columns, *(f"{one.column} bigint" for one in instants.values())])
    options = f"toast_tuple_target = {INLINE_BYTES}, {_NO_AUTOVACUUM}"
    run(connection, f"create unlogged table if not exists {name} ({columns}) with ({options})")
    if toasted := connection.execute(_TOASTED, {"name": name}).scalars().all():
        external = ", ".join(f"alter column {quoted(column)} set storage external" for column in toasted)
        run(connection, f"alter table {name} {external}")
    comment = f"Surelane: changes of {target} on their way, lane {lane}".replace("'", "''")
    run(connection, f"comment on table {name} is '{comment}'")
    return Staging(name, fields, ordinal, tuple(stamps), instants)


def copy(
    connection: Connection,
    staging: Staging,
    lines: pa.Array,
    ordinals: pa.Array | None = None,
    stamps: pa.Array | None = None,
) -> int:
    """COPY `lines` (string array, see `app.model.rows`) and return how many rows the server took.

    With `stamps` (see `EpochBatch.stamps`) and `ordinals` each line is preceded by them.
    """
    names = [quoted(field.column.name) for field in staging.fields]
    if staging.stamps:
        assert stamps is not None, "the table has columns for them"
        lines = compute.binary_join_element_wise(stamps, lines, "\t")
        names = [*staging.stamps, *names]
    if ordinals is not None:
        lines = compute.binary_join_element_wise(ordinals.cast(pa.string()), lines, "\t")
        names = [staging.ordinal, *names]
    file = CopyLines(lines)
    staging.dirty += file.size
    return copy_lines(connection, staging.name, names, file)


def reclaim(connection: Connection, names: Sequence[str]) -> list[str]:
    """VACUUM these staging tables, on a connection that commits each statement, once the transactions that filled them
    are committed. Returns those that are still large."""
    run(connection, "vacuum " + ", ".join(names))
    return list(connection.execute(_LARGE, {"names": list(names), "most": KEEP_BYTES}).scalars())
