"""`surelane migrate`: bring Surelane's own schema in the target database to the newest form."""

import json

import typer

from app.cli.options import ConfigFile, Json
from app.config.load import load
from app.db.engine import make_engine
from app.db.failures import translated
from app.ledger import migrate as ledger

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples:\n\n  surelane migrate\n\n  surelane migrate --config orders.yaml --json",
)
def migrate(config: ConfigFile = None, as_json: Json = False) -> None:
    """Create or update Surelane's schema in the target database. Harmless when there is nothing to do."""
    target = load(config).target
    engine = make_engine(target.url, target.owner_role, "surelane migrate")
    with translated(f"migrating schema {target.db_schema}"):
        before = ledger.current(engine, target.db_schema)
        ledger.upgrade(engine, target.db_schema)
        after = ledger.current(engine, target.db_schema)
    if as_json:
        typer.echo(json.dumps({"schema": target.db_schema, "before": before, "after": after}))
    elif before == after:
        typer.echo(f"schema {target.db_schema} is at revision {after} already")
    else:
        typer.echo(f"schema {target.db_schema}: {before or 'nothing'} -> revision {after}")
