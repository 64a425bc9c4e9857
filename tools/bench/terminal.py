"""Progress and tables for people, on stderr."""

import sys

from rich import table
from rich.console import Console

from tools.bench.page import Table

#: columns of text if stderr is no terminal
_WIDTH = 150
_COLOURS = {"not judged": "yellow", "reached": "green", "MISSED": "red", "right": "green", "WRONG": "red"}
console = Console(stderr=True, width=None if sys.stderr.isatty() else _WIDTH)


def say(text: str) -> None:
    """Print a line of progress."""
    console.print(f"[dim]bench:[/] {text}", highlight=False)


def show(one: Table) -> None:
    """Print the table with verdicts in colour."""
    made = table.Table(*one.columns, title=one.title, title_justify="left")
    for row in one.rows:
        made.add_row(*[f"[{_COLOURS[text]}]{text}[/]" if text in _COLOURS else text for text in row])
    console.print(made)
