"""Checks of the tables that the routes name or reach: they exist, with a primary key and the needed privileges."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, text

from app.cli.doctor_checks.finding import Finding, fault, ok, warn
from app.config.routes import Routes
from app.config.settings import SchemaEvolution, Settings

NEEDED = ("select", "insert", "update", "delete")
#: most names shown in one finding; a database may have thousands of tables
SHOWN = 10
_TABLES = text("""
    select n.nspname as schema, c.relname as name,
           exists (select 1 from pg_index i where i.indrelid = c.oid and i.indisprimary) as has_key,
           has_schema_privilege(n.oid, 'usage') as usable, pg_has_role(c.relowner, 'usage') as owned,
           array(select p from unnest(cast(:needed as text[])) p where not has_table_privilege(c.oid, p)) as lacking
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and not c.relispartition
      and n.nspname not in ('pg_catalog', 'information_schema', :own) and n.nspname !~ '^pg_(toast|temp)'
    order by 1, 2
""")


@dataclass(frozen=True, kw_only=True)
class _Table:
    schema: str
    name: str
    has_key: bool
    #: whether the lane's role owns it: only an owner may alter a table
    owned: bool
    #: privileges that the lane's role lacks
    lacking: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def tables(connection: Connection, settings: Settings) -> list[Finding]:
    """All checks of the tables that changes may go to."""
    routes = Routes(settings.target.tables)
    found = [
        table for table in _read(connection, settings.target.db_schema) if routes.reaches(table.schema, table.name)
    ]
    there = {(table.schema, table.name) for table in found}
    missing = [f"{schema}.{name}" for schema, name in routes.named() if (schema, name) not in there]
    found = [replace(table, has_key=True) if str(table) in settings.target.keys else table for table in found]
    findings = list(_faults(found, missing))
    if settings.target.schema_evolution is SchemaEvolution.ADD_COLUMNS:
        findings += _shapes(found)
    return findings or [ok("tables", f"{len(found)} tables can be written and have a primary key")]


def _faults(found: list[_Table], missing: list[str]) -> Iterator[Finding]:
    if missing:
        hint = "create them (pg_dump --schema-only of the source is a start), or change target.tables"
        yield fault("tables", f"not in the target: {some(missing)}", hint)
    elif not found:
        hint = "create them (pg_dump --schema-only of the source is a start), or change target.tables"
        yield fault("tables", "no table in the target is reached by target.tables", hint)
    if keyless := [str(table) for table in found if not table.has_key]:
        hint = "ALTER TABLE ... ADD PRIMARY KEY (...); rows are found by it. Or route around them"
        yield fault("tables", f"without a primary key: {some(keyless)}", hint)
    if refused := [f"{table} ({', '.join(table.lacking)})" for table in found if table.lacking]:
        hint = f"GRANT {', '.join(NEEDED).upper()} ON these tables (and USAGE on their schema) TO the lane's role"
        yield fault("privileges", f"not allowed: {some(refused)}", hint)


def _shapes(found: list[_Table]) -> Iterator[Finding]:
    if foreign := [str(table) for table in found if not table.owned]:
        problem = f"schema_evolution: add-columns, but the lane's role does not own {some(foreign)}"
        yield warn("privileges", problem, "ALTER TABLE ... OWNER TO the lane's role; or schema_evolution: stop")


def _read(connection: Connection, own_schema: str) -> list[_Table]:
    rows = connection.execute(_TABLES, {"needed": list(NEEDED), "own": own_schema})
    return [
        _Table(
            schema=row.schema,
            name=row.name,
            has_key=row.has_key,
            owned=row.owned,
            lacking=(*row.lacking, *(() if row.usable else ("usage of the schema",))),
        )
        for row in rows
    ]


def some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
