"""Bring the ledger's schema to the newest form, with Alembic and without an `alembic.ini`.

Everything happens in one transaction on one connection: lock, schema, tables, version. Two processes that migrate at
the same time take turns, and a crash leaves either all of it or nothing. The version table stands in the ledger's own
schema, so several installations can share a database.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text
from sqlalchemy.schema import CreateSchema

from app.errors import TargetMismatch

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
VERSION_TABLE = "surelane_version"
_LOCK = text("select pg_advisory_xact_lock(hashtextextended('surelane migrate ' || :schema, 0))")
_EXISTS = text("select 1 from pg_catalog.pg_namespace where nspname = :schema")
_SEARCH_PATH = text("select set_config('search_path', quote_ident(:schema), true)")


def upgrade(engine: Engine, schema: str) -> None:
    """Make the schema if it is missing and run what is missing of the migrations; does nothing when all is there."""
    with engine.begin() as connection:
        connection.execute(_LOCK, {"schema": schema})
        if connection.execute(_EXISTS, {"schema": schema}).first() is None:
            connection.execute(CreateSchema(schema))
        connection.execute(_SEARCH_PATH, {"schema": schema})
        command.upgrade(_config(connection, schema), "head")


def current(engine: Engine, schema: str) -> str | None:
    """The revision the schema is at, None when it was never migrated."""
    with engine.connect() as connection:
        return current_revision(connection, schema)


def current_revision(connection: Connection, schema: str) -> str | None:
    """As `current`, on a connection that is there already."""
    opts = {"version_table": VERSION_TABLE, "version_table_schema": schema}
    return MigrationContext.configure(connection, opts=opts).get_current_revision()


def head() -> str:
    """The newest revision this version of Surelane knows."""
    revision = ScriptDirectory(str(MIGRATIONS)).get_current_head()
    if revision is None:
        raise AssertionError(f"no migrations in {MIGRATIONS}")
    return revision


def trouble(revision: str | None, schema: str) -> tuple[str, str] | None:
    """What is wrong with a schema at this revision, and what to do; None: nothing."""
    newest = head()
    if revision == newest:
        return None
    if revision is None:
        return f"schema {schema} is not there yet", "surelane migrate"
    if is_known(revision):
        return f"schema {schema} is at revision {revision}, needed is {newest}", "surelane migrate"
    hint = "update this installation; migrations only go forward"
    return f"schema {schema} is at {revision}, which is newer than this version's {newest}", hint


def check_revision(connection: Connection, schema: str) -> None:
    """Raises TargetMismatch for a schema that is not of this version."""
    if found := trouble(current_revision(connection, schema), schema):
        raise TargetMismatch(f"{found[0]} (in the target)", hint=found[1])


def is_known(revision: str) -> bool:
    """Whether this version of Surelane has the migration."""
    return revision in {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}


def _config(connection: Connection, schema: str) -> Config:
    """What `migrations/env.py` reads."""
    config = Config(attributes={"connection": connection, "schema": schema, "version_table": VERSION_TABLE})
    config.set_main_option("script_location", str(MIGRATIONS))
    return config
