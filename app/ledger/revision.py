"""The revision of the ledger's schema and of this version of Surelane; without Alembic: each start looks at it."""

from pathlib import Path

from sqlalchemy import Connection, Engine, text

from app.db.sql import quoted, run
from app.errors import TargetMismatch

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
VERSION_TABLE = "surelane_version"
#: what names of the files of `migrations/versions` begin with; then comes the revision
_FILE = "m"
_IS_THERE = text("""
    select exists (
        select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where n.nspname = :schema and c.relname = :name
    )
""")


def current(engine: Engine, schema: str) -> str | None:
    """The revision of the schema; None when it was never migrated."""
    with engine.connect() as connection:
        return current_revision(connection, schema)


def current_revision(connection: Connection, schema: str) -> str | None:
    """As `current`, on an open connection."""
    if not connection.execute(_IS_THERE, {"schema": schema, "name": VERSION_TABLE}).scalar_one():
        return None
    table = f"{quoted(schema)}.{quoted(VERSION_TABLE)}"
    return run(connection, f"select version_num from {table}").scalar_one_or_none()  # noqa: S608


def head() -> str:
    """The newest revision of this version of Surelane."""
    return max(_revisions())


def trouble(revision: str | None, schema: str) -> tuple[str, str] | None:
    """Problem and hint for a schema at this revision; None when it is up to date."""
    newest = head()
    if revision == newest:
        return None
    if revision is None:
        return f"schema {schema} is not there yet", "surelane migrate"
    if revision in _revisions():
        return f"schema {schema} is at revision {revision}, needed is {newest}", "surelane migrate"
    hint = "update this installation; migrations only go forward"
    return f"schema {schema} is at {revision}, which is newer than this version's {newest}", hint


def check_revision(connection: Connection, schema: str) -> None:
    """Raises TargetMismatch for a schema at another revision than this version's."""
    if found := trouble(current_revision(connection, schema), schema):
        raise TargetMismatch(f"{found[0]} (in the target)", hint=found[1])


def _revisions() -> set[str]:
    """The revisions of this version, as the names of their files have them."""
    found = {path.name.removeprefix(_FILE).partition("_")[0] for path in (MIGRATIONS / "versions").glob(f"{_FILE}*.py")}
    assert found, f"no migrations in {MIGRATIONS}"
    return found
