"""The console for results, progress on stderr, and confirmation of commands."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.markup import escape

from app.errors import Refused

#: width of a table that goes to another program: keeps each row on one line
PIPED_WIDTH = 250


def console() -> Console:
    """A console as wide as the terminal, or wide enough for whole rows."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)


@contextmanager
def progress(verb: str, every_seconds: float | None = None) -> Iterator[Callable[[str], None]]:
    """Progress on stderr; where that is no terminal, a line every `every_seconds`, or nothing for None."""
    stderr = Console(stderr=True)
    if not stderr.is_terminal:
        yield _lines(verb, every_seconds) if every_seconds is not None else lambda _: None
        return
    with stderr.status(f"{verb} ...") as status:
        yield lambda words: status.update(escape(words))


def _lines(verb: str, every_seconds: float) -> Callable[[str], None]:
    printed_at = time.monotonic()

    def say(words: str) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at > every_seconds:
            printed_at = time.monotonic()
            typer.echo(f"{verb}: {words}", err=True)

    return say


def confirm(question: str) -> None:
    """Ask on the terminal; raises Refused unless the user confirms."""
    try:
        sure = typer.confirm(question, err=True)
    except typer.Abort:
        sure = False
    if not sure:
        raise Refused("not confirmed, nothing was changed", hint="--yes confirms beforehand")
