"""`surelane migrate`: migrates Surelane's schema in the target and in the guard's database to the newest revision."""

from collections.abc import Iterator

import typer
from sqlalchemy import Engine

from app.cli.common_options import ConfigFile, Json
from app.cli.rendering import Document, show
from app.config.loader import load
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.ledger.migrations import upgrade
from app.ledger.revision import current
from app.poison.guard_database import guard_engine

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples:\n\n  surelane migrate\n\n  surelane migrate --config orders.yaml --json",
)
def migrate(config: ConfigFile = None, as_json: Json = False) -> None:
    """Create or update Surelane's schema in the target database, and in the one of `guard.url` if that is given.

    Harmless when there is nothing to do.
    """
    settings = load(config)
    target, schema = settings.target, settings.target.db_schema
    done = _upgraded(make_engine(target.url, target.owner_role, "surelane migrate"), schema, "the target")
    elsewhere = None
    if settings.guard.url is not None:
        elsewhere = _upgraded(guard_engine(settings, "surelane migrate"), schema, "the guard's database")
    show({"schema": schema, **done, "guard": elsewhere}, migrated_text, as_json=as_json)


def migrated_text(document: Document) -> Iterator[str]:
    yield f"schema {document['schema']}: {_revisions(document)}"
    if document["guard"] is not None:
        yield f"schema {document['schema']} of the guard's database: {_revisions(document['guard'])}"


def _upgraded(engine: Engine, schema: str, where: str) -> Document:
    with translated(f"migrating schema {schema} of {where}"):
        before = current(engine, schema)
        upgrade(engine, schema)
        return {"before": before, "after": current(engine, schema)}


def _revisions(migrated: Document) -> str:
    before, after = migrated["before"], migrated["after"]
    return f"at revision {after} already" if before == after else f"{before or 'nothing'} -> revision {after}"
