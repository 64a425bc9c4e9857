"""`surelane guard`: shows the poison guard's records."""

import json

import typer

from app.cli.common_options import ConfigFile, Json
from app.cli.guard_view import as_json, facts, suspects
from app.cli.terminal import console
from app.config.loader import load
from app.config.settings import Settings
from app.db.sqlstate import translated
from app.poison.guard_database import guard_engine
from app.poison.guard_overview import GuardOverview, overview

app = typer.Typer(name="guard", add_completion=False, no_args_is_help=True)


@app.callback()
def guard() -> None:
    """What is in progress, and which messages are suspected of killing, hanging or failing the lane."""


@app.command(
    epilog="Examples:\n\n  surelane guard show\n\n"
    "  surelane guard show --json | jq '.lanes[].suspects[] | select(.messages_at_most == 1)'",
)
def show(config: ConfigFile = None, json_: Json = False) -> None:
    """Show the span in progress and every suspect of each lane.

    Reads only the guard's database: works while the lane runs and while it does not, and does not wait for it.
    """
    settings = load(config)
    lanes = _read(settings)
    if json_:
        typer.echo(json.dumps({"lanes": [as_json(lane, settings.guard) for lane in lanes]}))
        return
    for lane in lanes:
        console().print(facts(lane))
        if lane.suspects:
            console().print(suspects(lane, settings.guard))
        else:
            typer.echo("nothing is suspected")
    if not lanes:
        typer.echo("no lane of this configuration has begun anything yet")


def _read(settings: Settings) -> list[GuardOverview]:
    """Read both of the guard's tables in one snapshot."""
    engine = guard_engine(settings, "surelane guard").execution_options(isolation_level="REPEATABLE READ")
    with translated("the guard's tables"), engine.connect() as connection:
        several = settings.source.is_by_partition
        return overview(connection, settings.target.db_schema, settings.lane, several=several)
