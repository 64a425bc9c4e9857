"""The results as tables for people, on stderr."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import table

from tools.bench.peers import rows, summary
from tools.bench.peers.rows import Table

_COLOURS = {"not judged": "yellow", "reached": "green", "MISSED": "red", "right": "green", "WRONG": "red"}


def tables(done: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """All tables that have rows."""
    drained, held = summary.drains(done), summary.latencies(done)
    found = (rows.drains(drained), rows.costs(drained), rows.goals(drained), rows.latencies(held))
    yield from (one for one in found if one.rows)


def shown(one: Table) -> table.Table:
    """The table with verdicts in colour, for a terminal."""
    made = table.Table(*one.columns, title=one.title, title_justify="left")
    for row in one.rows:
        made.add_row(*map(_coloured, row))
    return made


def _coloured(text: str) -> str:
    return f"[{_COLOURS[text]}]{text}[/]" if text in _COLOURS else text
