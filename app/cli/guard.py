"""`surelane guard`: shows the poison guard's records."""

import typer

from app.cli.common_options import ConfigFile, Json, Query, settings_of
from app.cli.guard_view import guard_document, guard_text
from app.cli.rendering import show
from app.db.sqlstate import translated
from app.poison.guard_database import guard_engine
from app.poison.guard_overview import overview

app = typer.Typer(name="guard", add_completion=False, no_args_is_help=True)


@app.callback()
def guard() -> None:
    """What is in progress, and which messages are suspected of killing, hanging or failing the lane."""


@app.command(
    "show",
    epilog="Examples:\n\n  surelane guard show\n\n"
    "  surelane guard show --json | jq '.lanes[].suspects[] | select(.messages_at_most == 1)'",
)
def show_records(config: ConfigFile = None, query: Query = None, json_: Json = False) -> None:
    """Show the span in progress and every suspect of each lane.

    Reads only the guard's database: works while the lane runs and while it does not, and does not wait for it.
    """
    settings = settings_of(config, query)
    # both of the guard's tables in one snapshot
    engine = guard_engine(settings, "surelane guard").execution_options(isolation_level="REPEATABLE READ")
    with translated("the guard's tables"), engine.connect() as connection:
        several = settings.source.is_by_partition
        lanes = overview(connection, settings.target.db_schema, settings.lane, several=several)
    show(guard_document(lanes, settings.guard), guard_text, as_json=json_)
