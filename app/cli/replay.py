"""`surelane replay`: builds the lane's tables again in another place, from the messages that made them."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Annotated

import typer

from app.cli.common_options import ConfigFile, Json
from app.cli.rendering import show
from app.cli.replay_view import replayed_document, replayed_text
from app.cli.terminal import progress
from app.config.loader import load
from app.logs import warnings_only
from app.process import STOP_SIGNALS
from app.replay.bounds import EXAMPLE, Bound
from app.replay.destination import RebuildPlace
from app.replay.opening import ReplayOptions
from app.replay.replay import Replaying

#: seconds between two lines of progress where stderr is no terminal
PROGRESS_SECONDS = 10.0

app = typer.Typer(add_completion=False)


def _bound(text: str) -> Bound:
    try:
        return Bound.parse(text)
    except ValueError:
        raise typer.BadParameter(f"write it like {EXAMPLE}, or earliest, or latest") from None


@app.command(
    epilog="Examples:\n\n  surelane replay --from earliest --into shadow\n\n"
    "  surelane replay --from 'shop.cdc[0]@0' --to epoch:last --into postgresql://surelane@127.0.0.1/rebuilt",
)
def replay(
    into: Annotated[
        str,
        typer.Option(
            "--into",
            envvar="SURELANE_INTO",
            metavar="SCHEMA|URL",
            help="A schema of the target's database, or another database.",
            show_default=False,
        ),
    ],
    config: ConfigFile = None,
    start: Annotated[
        Bound | None,
        typer.Option(
            "--from",
            parser=_bound,
            metavar="POSITION|TIME|EPOCH",
            help="The first message; not needed to go on.",
            show_default=False,
        ),
    ] = None,
    goal: Annotated[
        Bound | None,
        typer.Option(
            "--to",
            parser=_bound,
            metavar="POSITION|TIME|EPOCH",
            help="The first message that is not applied any more; of an epoch, its end.",
            show_default="where the topics end at the first call",
        ),
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Empty the tables there, give up what an earlier call did, begin anew.")
    ] = False,
    json_: Json = False,
) -> None:
    """Make the lane's tables anew elsewhere, from Kafka, beside the running lane and without touching it.

    The messages are decoded, routed, transformed, applied and skipped as the lane does it, up to exactly `--to`. The
    tables are made like the target's. Killed or stopped, the same call goes on. Prints the command that compares.
    """
    settings = load(config)
    try:
        place = RebuildPlace.parse(settings, into)
    except ValueError as error:
        raise typer.BadParameter(f"--into: {error}") from None
    options = ReplayOptions(start=start, goal=goal, anew=anew)
    with warnings_only(), _stopping() as stop, progress("replay", PROGRESS_SECONDS) as say:
        done = Replaying(place, options, stop=stop, progress=say).run()
    show(replayed_document(done, config), replayed_text, as_json=json_)


@contextmanager
def _stopping() -> Iterator[Event]:
    """An event that SIGTERM and Ctrl-C set."""
    stop = Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in STOP_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
