"""Migrates the ledger's schema to the newest revision, with Alembic and without an `alembic.ini`.

One transaction on one connection has all steps: lock, schema, tables, version. Concurrent migrations wait for each
other, and a crash leaves all of a migration or nothing. The version table is in the ledger's schema, so several
installations can share a database.
"""

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, text
from sqlalchemy.schema import CreateSchema

from app.ledger.revision import MIGRATIONS, VERSION_TABLE

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


def _config(connection: Connection, schema: str) -> Config:
    """The configuration that `migrations/env.py` reads."""
    config = Config(attributes={"connection": connection, "schema": schema, "version_table": VERSION_TABLE})
    config.set_main_option("script_location", str(MIGRATIONS))
    return config
