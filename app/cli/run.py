"""`surelane run`: run the lane."""

from typing import Annotated

import typer

from app import logs
from app.cli.options import ConfigFile
from app.config.load import load

app = typer.Typer(add_completion=False)

UntilCaughtUp = Annotated[
    bool, typer.Option("--until-caught-up", help="Apply what Kafka holds at the start, then end with status 0.")
]


@app.command(
    epilog="Examples:\n\n  surelane run --config surelane.yaml\n\n"
    "  SURELANE_COMMIT=ledger surelane run --until-caught-up",
)
def run(config: ConfigFile = None, until_caught_up: UntilCaughtUp = False) -> None:
    """Apply changes until told to stop (SIGTERM or Ctrl-C), going on where the target's ledger says.

    What an earlier run left in doubt is settled first. Logs are JSON lines on stderr, for people when it is a terminal.
    """
    settings = load(config)
    logs.configure(settings.lane)
    # after the configuration is checked: Spark's imports take a second
    from app.supervise.service import run as run_lane

    run_lane(settings, until_caught_up=until_caught_up)
