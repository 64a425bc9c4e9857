"""`surelane run`: run the lane."""

import gc
from typing import Annotated

import typer

from app import logs
from app.cli.common_options import ConfigFile
from app.config.loader import load
from app.spark.session_options import is_local
from app.stage.fork_server import ForkServer
from app.supervisor.link import Link
from app.supervisor.supervisor import Supervisor

app = typer.Typer(add_completion=False)

UntilCaughtUp = Annotated[
    bool, typer.Option("--until-caught-up", help="Apply what Kafka holds at the start, then end with status 0.")
]


@app.command(
    epilog="Examples:\n\n  surelane run --config surelane.yaml\n\n"
    "  SURELANE_COMMIT=ledger surelane run --until-caught-up",
)
def run(
    config: ConfigFile = None,
    until_caught_up: UntilCaughtUp = False,
) -> None:
    """Apply changes until a signal to stop (SIGTERM or Ctrl-C), going on where the target's ledger says.

    What an earlier run left in doubt is settled first. Logs are JSON lines on stderr, for people when it is a terminal.
    The lane runs in a process of its own, which is started again when it dies (`restart` in the configuration).
    """
    settings = load(config)
    logs.configure(settings.lane)
    role = Supervisor(settings).run()
    if isinstance(role, int):
        raise typer.Exit(role)
    gc.disable()  # until everything is imported: objects made until then live as long as the process
    with Link(role.link) as link:
        # in the worker only; the service's imports take as long as the JVM's start
        from app.worker.lane_jvm import start_lanes_jvm

        server = ForkServer() if is_local(settings.spark.master) else None
        jvm = start_lanes_jvm(settings)
        from app.stage.daemon import imported
        from app.worker.retry_loop import run as run_lane

        if server is not None:
            server.start(imported())
        run_lane(settings, until_caught_up, link, role.after_death, jvm)
