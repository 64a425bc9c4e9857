"""`surelane guard`: shows the poison guard's records."""

import typer

from app.cli.common_options import ConfigFile, Json, Query, settings_of
from app.cli.guard_view import guard_text
from app.cli.operator_access import guard_records
from app.cli.rendering import show

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
    show(guard_records(settings_of(config, query)), guard_text, as_json=json_)
