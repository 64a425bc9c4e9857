"""Migrates the ledger's schema to the newest revision, with Alembic and without an `alembic.ini`.

One transaction on one connection has all steps: lock, schema, tables, version. Concurrent migrations wait for each
other, and a crash leaves all of a migration or nothing. The version table is in the ledger's schema, so several
installations can share a database.
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
    """Create the schema if it is missing, and run the missing migrations."""
    with engine.begin() as connection:
        connection.execute(_LOCK, {"schema": schema})
        if connection.execute(_EXISTS, {"schema": schema}).first() is None:
            connection.execute(CreateSchema(schema))
        connection.execute(_SEARCH_PATH, {"schema": schema})
        command.upgrade(_config(connection, schema), "head")


def current(engine: Engine, schema: str) -> str | None:
    """The revision of the schema; None when it was never migrated."""
    with engine.connect() as connection:
        return current_revision(connection, schema)


def current_revision(connection: Connection, schema: str) -> str | None:
    """As `current`, on an open connection."""
    opts = {"version_table": VERSION_TABLE, "version_table_schema": schema}
    return MigrationContext.configure(connection, opts=opts).get_current_revision()


def head() -> str:
    """The newest revision of this version of Surelane."""
    revision = ScriptDirectory(str(MIGRATIONS)).get_current_head()
    if revision is None:
        raise AssertionError(f"no migrations in {MIGRATIONS}")
    return revision


def trouble(revision: str | None, schema: str) -> tuple[str, str] | None:
    """Problem and hint for a schema at this revision; None when it is up to date."""
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
    """Raises TargetMismatch for a schema at another revision than this version's."""
    if found := trouble(current_revision(connection, schema), schema):
        raise TargetMismatch(f"{found[0]} (in the target)", hint=found[1])


def is_known(revision: str) -> bool:
    """Whether this version of Surelane has the migration."""
    return revision in {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}


def _config(connection: Connection, schema: str) -> Config:
    """The configuration that `migrations/env.py` reads."""
    config = Config(attributes={"connection": connection, "schema": schema, "version_table": VERSION_TABLE})
    config.set_main_option("script_location", str(MIGRATIONS))
    return config
