"""Makes rollups at a lane's start, compares them with their tables, and computes them anew."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection, text

from app.apply.target_tables import load_table
from app.config.settings import Settings
from app.db.sql import run
from app.db.sqlstate import translated
from app.errors import TargetMismatch
from app.rollup.definition import ROWS, RollupDefinition

log = structlog.get_logger()

#: NULLS NOT DISTINCT
_LEAST_VERSION = 150000
#: what the lane's role has to be allowed
NEEDED = (
    "its role needs TRIGGER on the table, and CREATE in the schema of the rollup's table; where its login has"
    " session_replication_role = replica, it has to own the table"
)
_IS_REPLICA = text("select current_setting('session_replication_role') = 'replica'")
_NOT_NULL = text("""
    select attname from pg_attribute where attrelid = cast(:oid as oid) and attnum > 0 and attnotnull
""")
_MARK = text("""
    select obj_description(p.oid, 'pg_proc') from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = :schema and p.proname = :name and :triggers = (
        select count(*) from pg_trigger t where t.tgfoid = p.oid and t.tgrelid = cast(:oid as oid)
          and t.tgenabled = any(cast(:fires as "char"[]))
    )
""")
#: insert, update, delete, truncate
_TRIGGERS = 4
_MADE = text("""
    select p.proname as function, obj_description(p.oid, 'pg_proc') as mark
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = :schema and p.proname ~ '^rollup_[0-9a-f]{24}$' order by 2
""")


@dataclass(frozen=True)
class RollupState:
    """A rollup as it is in the target."""

    name: str
    #: schema.table
    of: str
    table: str
    #: `kept`, `missing` (the function, or one of its triggers), or `other definition`
    state: str


def definitions(connection: Connection, settings: Settings) -> list[RollupDefinition]:
    """Those of the configuration. Raises TargetMismatch."""
    found: list[RollupDefinition] = []
    for name, config in settings.rollups.items():
        table = load_table(connection, *config.of.split(".", 1))
        if table is None:
            raise TargetMismatch(f"rollup {name}: there is no table {config.of}", hint="create it; it may be empty")
        not_null = connection.execute(_NOT_NULL, {"oid": table.oid}).scalars().all()
        schema = settings.target.db_schema
        found.append(RollupDefinition.of(settings.lane, name, config, table, schema, not_null))
    if found and connection.execute(text("select current_setting('server_version_num')::int")).scalar_one() < (
        _LEAST_VERSION
    ):
        raise TargetMismatch("rollups need PostgreSQL 15 or newer", hint="leave rollups out, or upgrade the target")
    return found


def keep(connection: Connection, settings: Settings) -> None:
    """Make the rollups that are missing or of another definition, each in a transaction of its own, in which no other
    session writes to its source."""
    if not settings.rollups:
        return
    with translated(f"lane {settings.lane}: rollups"), connection.begin():
        wanted = definitions(connection, settings)
    for one in wanted:
        with translated(f"lane {settings.lane}: rollup {one.name}"), connection.begin():
            if _mark(connection, one) == one.mark:
                continue
            rebuild(connection, one)
        log.info("rollup made", rollup=one.name, of=str(one.source), table=one.config.table)


def rebuild(connection: Connection, definition: RollupDefinition) -> None:
    """Make table, rows and triggers anew, in the caller's transaction: readers see the old rows until its end.

    Raises TargetMismatch where another table has its name.
    """
    there = load_table(connection, *definition.config.table.split(".", 1))
    if there is not None and ROWS not in there.by_name:
        raise TargetMismatch(
            f"rollup {definition.name}: table {there} is there, and no rollup: it lacks {ROWS}",
            hint=f"name another table in rollups.{definition.name}.table: the lane makes it",
        )
    run(connection, f"lock table {definition.source.quoted_name} in share row exclusive mode")
    for statement in definition.create():
        run(connection, statement)
    if connection.execute(_IS_REPLICA).scalar_one():
        for statement in definition.enable_always():
            run(connection, statement)


def states(connection: Connection, settings: Settings) -> list[RollupState]:
    """Of the rollups of the configuration."""
    found: list[RollupState] = []
    for one in definitions(connection, settings):
        mark = _mark(connection, one)
        state = "kept" if mark == one.mark else "missing" if mark is None else "other definition"
        found.append(RollupState(one.name, one.config.of, one.config.table, state))
    return found


def not_configured(connection: Connection, settings: Settings) -> list[tuple[str, str]]:
    """Trigger functions of this lane's rollups that the configuration does not name any more, with their comments."""
    wanted = {one.function for one in definitions(connection, settings)}
    rows = connection.execute(_MADE, {"schema": settings.target.db_schema}).all()
    mine = f" of lane {settings.lane}: "
    return [(row.function, row.mark) for row in rows if row.function not in wanted and mine in (row.mark or "")]


def differences(connection: Connection, definition: RollupDefinition, limit: int) -> list[dict[str, Any]]:
    """Groups whose values are not those of the table's rows, in one snapshot."""
    rows = run(connection, f"{definition.differences()} limit {limit}").all()
    return [{"there": _json(row.there), "fresh": _json(row.fresh)} for row in rows]


def drop(connection: Connection, function: str, schema: str) -> None:
    """Remove the triggers and the function of a rollup; its table stays."""
    run(connection, f'drop function if exists "{schema}"."{function}"() cascade')


def find(wanted: Sequence[RollupDefinition], name: str) -> RollupDefinition | None:
    return next((one for one in wanted if one.name == name), None)


def _mark(connection: Connection, definition: RollupDefinition) -> str | None:
    """None where the function is missing, or one of its triggers is, or does not fire."""
    names = {"schema": definition.schema, "name": definition.function}
    fires = ["A", "R" if connection.execute(_IS_REPLICA).scalar_one() else "O"]
    values = {**names, "oid": definition.source.oid, "triggers": _TRIGGERS, "fires": fires}
    return connection.execute(_MARK, values).scalar_one_or_none()


def _json(value: object) -> Any:
    return json.loads(value) if isinstance(value, str) else value
