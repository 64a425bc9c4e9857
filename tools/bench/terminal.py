"""Converts a page's table for a terminal."""

from rich import table

from tools.bench.page import Table

_COLOURS = {"not judged": "yellow", "reached": "green", "MISSED": "red", "right": "green", "WRONG": "red"}


def shown(one: Table) -> table.Table:
    """The table with verdicts in colour."""
    made = table.Table(*one.columns, title=one.title, title_justify="left")
    for row in one.rows:
        made.add_row(*[f"[{_COLOURS[text]}]{text}[/]" if text in _COLOURS else text for text in row])
    return made
