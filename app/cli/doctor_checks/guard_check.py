"""Checks of the guard's database, where `guard.url` names one."""

from dataclasses import replace

from sqlalchemy import Connection, text

from app.cli.doctor_checks.finding import Finding, Level, failed, fault, ok
from app.cli.doctor_checks.target_check import migrations, own_schema, server
from app.cli.doctor_checks.timeout_check import timeouts
from app.config.settings import Settings
from app.db.direct import check_direct
from app.db.sqlstate import translated
from app.errors import SurelaneError, Unreachable
from app.ledger import revision as revisions
from app.poison.guard_database import guard_engine
from app.poison.guard_tables import AttemptTables

_MISSING = text("""
    select format('%I.%I', n.nspname, c.relname) as name, string_agg(p.privilege, ', ' order by p.at) as missing
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    cross join unnest(array['select', 'insert', 'update', 'delete']) with ordinality p(privilege, at)
    where n.nspname = :schema and c.relname = any(:tables)
      and not (has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, p.privilege))
    group by 1 order by 1
""")
_CHECK = "guard"
_CONNECT = (
    "is that server up, guard.url right, and this machine let in? Without it nothing is processed; to keep the guard's "
    "tables in the target leave guard.url out"
)


def guard(settings: Settings) -> list[Finding]:
    """All checks of the guard's database; none where it is the target, which has its own checks."""
    url = settings.guard.url
    if url is None:
        return []
    name = url.render_as_string(hide_password=True)
    try:
        doing = f"connecting to {name}"
        engine = guard_engine(settings, "surelane doctor")
        with translated(doing), engine.connect() as connection:
            check_direct(engine, connection, "guard.url")
            found = [*server(connection, name, key="guard.url"), *_own(connection, settings.target.db_schema)]
            found.append(timeouts(connection))
    except Unreachable as error:
        return [fault(_CHECK, error.message, _CONNECT)]
    except SurelaneError as error:
        return [failed(_CHECK, error, "surelane migrate")]
    return [replace(finding, check=_CHECK) for finding in found]


def _own(connection: Connection, schema: str) -> list[Finding]:
    """Whether the tables may be written, or can be made where they do not exist yet."""
    writable = privileges(connection, schema)
    if writable.level is Level.FAULT:
        return [writable]
    revision = revisions.current_revision(connection, schema)
    return [migrations(revision, schema), own_schema(connection, schema) if revision is None else writable]


def privileges(connection: Connection, schema: str) -> Finding:
    """Whether the existing tables of the guard may be read and written."""
    user = connection.exec_driver_sql("select current_user").scalar_one()
    tables = AttemptTables.in_schema(schema)
    names = [tables.attempt.name, tables.suspect.name, revisions.VERSION_TABLE]
    rows = connection.execute(_MISSING, {"schema": schema, "tables": names}).all()
    if not rows:
        return ok(_CHECK, f"{user} may write what it needs in {schema}")
    missing = "; ".join(f"{row.name} ({row.missing})" for row in rows)
    on = ", ".join(row.name for row in rows)
    hint = f'GRANT USAGE ON SCHEMA "{schema}" TO "{user}"; GRANT SELECT, INSERT, UPDATE, DELETE ON {on} TO "{user}";'
    return fault(_CHECK, f"{user} lacks privileges on {missing}", hint)
