"""`surelane savepoint`: keeps what a lane is at a position, and says whether a configuration goes on from there."""

from typing import Annotated

import typer

from app.cli.caller import who
from app.cli.common_options import ConfigFile, Json, Replayable
from app.cli.query_session import session_of
from app.cli.rendering import Document, show
from app.cli.replayable_view import replayable_documents
from app.cli.savepoint_view import (
    checked_document,
    checked_text,
    created_text,
    listed_text,
    savepoint_document,
    shown_text,
    verified_text,
)
from app.cli.terminal import confirm, progress
from app.config.loader import load
from app.config.settings import Settings
from app.db.engine import make_engine
from app.errors import ExitStatus
from app.kafka.broker import Broker
from app.model.state_store import StateStore
from app.savepoint.folder import SavepointFolder
from app.savepoint.picture import picture, picture_with_dump
from app.savepoint.resuming import compared
from app.savepoint.savepoint import Savepoint
from app.savepoint.state_compatibility import compare_states
from app.savepoint.stopping import resume as withdraw_stop
from app.savepoint.stopping import stop as stop_lane

app = typer.Typer(
    name="savepoint",
    help="Savepoints: what a lane is at a position, with pins, quarantine and configuration. The lane runs on.",
    add_completion=False,
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the savepoint.", show_default=False)]


@app.command(
    epilog="Examples:\n\n  surelane savepoint create\n\n"
    "  surelane savepoint create before-the-release --json | jq .position",
)
def create(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its name; default: lane and time.")] = None,
    config: ConfigFile = None,
    with_snapshot: Annotated[
        bool, typer.Option("--with-snapshot", help="Dump the target, too, of exactly this position (snapshots.*).")
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop the lane first; it starts again with run --from-savepoint NAME.")
    ] = False,
    timeout: Annotated[int, typer.Option("--timeout", min=1, help="Seconds for the lane to end, with --stop.")] = 120,
    json_: Json = False,
) -> None:
    """Write a savepoint of the lane's position in the target. The lane runs on, and waits for nothing.

    A savepoint exists when it is whole, or not at all, and may be moved, to another kind of place, too: no path is
    inside. A snapshot stays in snapshots.directory, under the savepoint's name.
    """
    settings = load(config)
    folder = _folder(settings)
    name = name or folder.free_name(settings.lane)
    folder.check_free(name)
    with progress("savepoint") as say:
        if stop:
            caller = who()
            stop_lane(settings, name, f"{caller.user}@{caller.host}", timeout, say)
        if with_snapshot:
            made, _ = picture_with_dump(settings, name, say)
        else:
            made = picture(settings, name)
    document = {**savepoint_document(made), "folder": folder.write(made)}
    show(document, created_text, as_json=json_)


@app.command(epilog="Examples:\n\n  surelane savepoint resume\n\n  surelane savepoint resume --config surelane.yaml")
def resume(config: ConfigFile = None) -> None:
    """Let a lane start again that was stopped with `create --stop`, without a look at the savepoint."""
    settings = load(config)
    typer.echo(f"lane {settings.lane} {'may start again' if withdraw_stop(settings) else 'has no order to stop'}")


@app.command(
    "list",
    epilog="Examples:\n\n  surelane savepoint list\n\n  surelane savepoint list --json | jq -r '.savepoints[-1].name'",
)
def list_savepoints(config: ConfigFile = None, replayable: Replayable = False, json_: Json = False) -> None:
    """Show the savepoints, and why one cannot be used."""
    settings = load(config)
    folder = _folder(settings)
    found, broken = folder.listing()
    listed = list(map(savepoint_document, found))
    document: Document = {"directory": folder.root, "savepoints": listed, "broken": broken}
    if replayable:
        with Broker(settings.source) as broker:
            document["replayable"] = replayable_documents(settings, broker, listed)
    show(document, listed_text, as_json=json_)


@app.command(
    "show",
    epilog="Examples:\n\n  surelane savepoint show before-the-release\n\n"
    "  surelane savepoint show before-the-release --json | jq .configuration",
)
def show_savepoint(name: Name, config: ConfigFile = None, json_: Json = False) -> None:
    """Show one: positions, pins, quarantine, versions."""
    show(savepoint_document(_folder(load(config)).get(name)), shown_text, as_json=json_)


@app.command(
    epilog="Examples:\n\n  surelane savepoint verify before-the-release\n\n"
    "  surelane savepoint verify before-the-release --json | jq .problem",
)
def verify(name: Name, config: ConfigFile = None, json_: Json = False) -> None:
    """Read one again: is it what was written? Ends with status 16 when it cannot be used."""
    folder = _folder(load(config))
    problem = folder.problem(name)
    document = {"name": name, "usable": problem is None, "problem": problem}
    show(document, verified_text, as_json=json_)
    if problem is not None:
        raise typer.Exit(ExitStatus.DIFFERENT)


@app.command(
    epilog="Examples:\n\n  surelane savepoint dispose before-the-release\n\n"
    "  surelane savepoint dispose before-the-release --yes",
)
def dispose(
    name: Name,
    config: ConfigFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether it is meant.")] = False,
) -> None:
    """Delete one. A snapshot that belongs to it stays: surelane snapshot delete."""
    folder = _folder(load(config))
    if not yes:
        confirm(f"dispose of savepoint {name}?")
    folder.dispose(name)
    typer.echo(f"{name} is disposed of")


@app.command(
    epilog="Examples:\n\n  surelane savepoint check before-the-release --config new.yaml\n\n"
    "  surelane savepoint check before-the-release --config new.yaml --allow-non-restored routes:public.old",
)
def check(
    name: Name,
    config: ConfigFile = None,
    allow: Annotated[
        list[str] | None, typer.Option("--allow-non-restored", help="An item whose loss is accepted. Several times.")
    ] = None,
    json_: Json = False,
) -> None:
    """Say whether a lane may go on from a savepoint with a configuration, item by item. Touches nothing.

    For the state of queries Spark plans them as they are configured now, which takes some seconds.

    Ends with status 16 when something would be lost that is not allowed, or the two do not fit.
    """
    settings = load(config)
    found = _folder(settings).get(name)
    results = compared(found, settings, allow or ())
    if found.state:
        results += compare_states(found.state, _planned_states(found, settings), allow or ())
    show(checked_document(name, results), checked_text, as_json=json_)
    if any(one.blocks for one in results):
        raise typer.Exit(ExitStatus.DIFFERENT)


def _planned_states(savepoint: Savepoint, settings: Settings) -> dict[str, list[StateStore]]:
    """Of the configuration's queries that have a state in the savepoint."""
    from app.query.state_shape import planned_shape  # a verb that needs no Spark does not wait for its imports

    names = [name for name in settings.queries if name in savepoint.state]
    if not names:
        return {}
    engine = make_engine(settings.target.url, settings.target.owner_role, "surelane savepoint")
    with session_of(settings.of_query(names[0])) as spark:
        return {name: planned_shape(settings.of_query(name), spark, engine) for name in names}


def _folder(settings: Settings) -> SavepointFolder:
    return SavepointFolder(settings.savepoints.directory)
