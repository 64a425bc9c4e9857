"""`surelane run`: run the lane."""

import gc
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import structlog
import typer

from app import logs
from app.cli.common_options import ConfigFile, Query, settings_of
from app.config.settings import Settings
from app.errors import EnvironmentMissing
from app.spark.session_options import is_local
from app.stage.fork_server import ForkServer
from app.supervisor.link import Link
from app.supervisor.supervisor import Supervisor

log = structlog.get_logger()
app = typer.Typer(add_completion=False)

#: beginning of a topic's item, see `app.savepoint.compatibility`
_TOPIC_ITEM = "topics:"

UntilCaughtUp = Annotated[
    bool, typer.Option("--until-caught-up", help="Apply what Kafka holds at the start, then end with status 0.")
]
FromSavepoint = Annotated[
    str | None, typer.Option("--from-savepoint", metavar="NAME", help="Run only at the position of this savepoint.")
]
Allowed = Annotated[
    list[str] | None, typer.Option("--allow-non-restored", help="An item whose loss is accepted. Several times.")
]

LogFile = Annotated[
    Path | None,
    typer.Option(
        "--log",
        envvar="SURELANE_LOG_FILE",
        help="Also write the log to this file, as lines of JSON: what `surelane console --log` reads.",
    ),
]


@app.command(
    epilog="Examples:\n\n  surelane run --config surelane.yaml\n\n"
    "  SURELANE_COMMIT=ledger surelane run --until-caught-up",
)
def run(
    config: ConfigFile = None,
    until_caught_up: UntilCaughtUp = False,
    from_savepoint: FromSavepoint = None,
    allow: Allowed = None,
    query: Query = None,
    log_file: LogFile = None,
) -> None:
    """Apply changes until a signal to stop (SIGTERM or Ctrl-C), going on where the target's ledger says.

    What an earlier run left in doubt is settled first. Logs are JSON lines on stderr, for people when it is a terminal.
    The lane runs in a process of its own, which is started again when it dies (`restart` in the configuration).
    With --from-savepoint it runs only where the target is at the savepoint's position; else the ways there are named.
    A topic that source.topics names no more is left out only with --allow-non-restored topics:NAME.
    With --query it runs this query of the configuration instead of the lane; each runs in a process of its own.
    """
    settings = settings_of(config, query)
    _log_to(settings.lane, log_file)
    if from_savepoint is not None:
        _check(settings, from_savepoint, allow or ())
    role = Supervisor(settings).run()
    if isinstance(role, int):
        raise typer.Exit(role)
    gc.disable()  # until everything is imported: objects made until then live as long as the process
    with Link(role.link) as link:
        # in the worker only; the service's imports take as long as the JVM's start
        from app.skipped_imports import have_arrow_skip_pandas
        from app.worker.lane_jvm import start_lanes_jvm

        server = ForkServer() if is_local(settings.spark.master) else None
        jvm = start_lanes_jvm(settings)
        if settings.query is None and settings.transform is None:  # a function may get a Series
            have_arrow_skip_pandas()
        from app.stage.daemon import imported
        from app.worker.retry_loop import run as run_lane

        if server is not None:
            server.start(imported())
        run_lane(settings, until_caught_up, link, role.after_death, jvm, _removable(allow or ()), log_file)


def _log_to(lane: str, file: Path | None) -> None:
    try:
        logs.configure(lane, file=file)
    except OSError as error:
        raise EnvironmentMissing(
            f"the log's file {file} cannot be written: {error.strerror}", hint="name another one: --log"
        ) from None


def _removable(allowed: Collection[str]) -> set[str]:
    """Topics among the items whose loss is accepted."""
    return {item.removeprefix(_TOPIC_ITEM) for item in allowed if item.startswith(_TOPIC_ITEM)}


def _check(settings: Settings, name: str, allowed: Collection[str]) -> None:
    # what every start imports, the worker has as well: these are for this option only
    from app.savepoint.reading import read_apart
    from app.savepoint.resuming import check_resumable
    from app.savepoint.stopping import resume

    log.info(check_resumable(read_apart(settings.savepoints.directory, name), settings, allowed))
    resume(settings)
