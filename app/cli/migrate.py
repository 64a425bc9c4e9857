"""`surelane migrate`: migrates Surelane's schema in the target and in the guard's database to the newest revision."""

import json
from dataclasses import dataclass
from typing import Any

import typer
from sqlalchemy import Engine

from app.cli.common_options import ConfigFile, Json
from app.config.loader import load
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.ledger import migrations as ledger
from app.poison.guard_database import guard_engine

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Migrated:
    """A schema's revision before and after."""

    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before == self.after:
            return f"at revision {self.after} already"
        return f"{self.before or 'nothing'} -> revision {self.after}"


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
    if as_json:
        typer.echo(json.dumps({"schema": schema, **_plain(done), "guard": _plain(elsewhere) if elsewhere else None}))
        return
    typer.echo(f"schema {schema}: {done}")
    if elsewhere:
        typer.echo(f"schema {schema} of the guard's database: {elsewhere}")


def _upgraded(engine: Engine, schema: str, where: str) -> Migrated:
    with translated(f"migrating schema {schema} of {where}"):
        before = ledger.current(engine, schema)
        ledger.upgrade(engine, schema)
        return Migrated(before, ledger.current(engine, schema))


def _plain(migrated: Migrated) -> dict[str, Any]:
    return {"before": migrated.before, "after": migrated.after}
