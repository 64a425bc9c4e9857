"""`surelane run`: run the lane."""

import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from app import logs
from app.cli.options import ConfigFile
from app.config.load import load
from app.model.death import Death
from app.spark.options import is_local
from app.stage.fork_server import ForkServer
from app.supervise.link import Link
from app.supervise.supervisor import Supervisor

app = typer.Typer(add_completion=False)

UntilCaughtUp = Annotated[
    bool, typer.Option("--until-caught-up", help="Apply what Kafka holds at the start, then end with status 0.")
]
#: what the supervisor tells a worker: the file descriptor of its link, and how the worker before it died
Worker = Annotated[int | None, typer.Option(hidden=True)]
AfterDeath = Annotated[Death | None, typer.Option(hidden=True, parser=Death.from_json)]


@app.command(
    epilog="Examples:\n\n  surelane run --config surelane.yaml\n\n"
    "  SURELANE_COMMIT=ledger surelane run --until-caught-up",
)
def run(
    config: ConfigFile = None,
    until_caught_up: UntilCaughtUp = False,
    worker: Worker = None,
    after_death: AfterDeath = None,
) -> None:
    """Apply changes until told to stop (SIGTERM or Ctrl-C), going on where the target's ledger says.

    What an earlier run left in doubt is settled first. Logs are JSON lines on stderr, for people when it is a terminal.
    The lane runs in a process of its own, which is started again when it dies (`restart` in the configuration).
    """
    settings = load(config)
    logs.configure(settings.lane)
    if worker is None:
        raise typer.Exit(Supervisor(settings, _worker(config, until_caught_up)).run())
    gc.disable()  # until everything is imported: what is made by then stays
    with Link(worker) as link:
        # in the worker only; the service's imports take as long as the JVM needs to come up
        from app.supervise.jvm import start_lanes_jvm

        server = ForkServer() if is_local(settings.spark.master) else None
        jvm = start_lanes_jvm(settings)
        from app.stage.daemon import imported
        from app.supervise.service import run as run_lane

        if server is not None:
            server.start(imported())
        run_lane(settings, until_caught_up, link, after_death, jvm)


def _worker(config: Path | None, until_caught_up: bool) -> list[str]:
    """The command that starts a worker of the same lane."""
    options = (["--config", str(config)] if config else []) + (["--until-caught-up"] if until_caught_up else [])
    return [sys.executable, "-m", "app.cli", "run", *options]
