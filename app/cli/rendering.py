"""How every verb shows its results: one document, printed as JSON or as text that is made from it alone.

Nothing in the text controls the terminal.
"""

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from app.cli.terminal import console
from app.model.offsets import Offsets, Position
from app.model.utc import utc

#: a verb's result: what `--json` prints
Document = dict[str, Any]

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_UNITS = ("B", "kB", "MB", "GB", "TB")
_STEP = 1024


def show(document: Document, text: Callable[[Document], Iterable[RenderableType]], *, as_json: bool) -> None:
    """Print the document on stdout, or the parts of its text; a str is printed without folding."""
    if as_json:
        typer.echo(json.dumps(document))
        return
    for part in text(document):
        if isinstance(part, str):
            typer.echo(printable(part))
        else:
            console().print(part)


def grid(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], title: str | None = None) -> Table:
    """A line for each row; long cells are folded. A Text is shown as it is."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(printable(cell)) for cell in row))
    return table


def facts_table(lines: Mapping[str, str], title: str | None = None) -> Table:
    """A line for each fact and its name; in a frame where it has a title."""
    if title is None:
        table = Table("", "", show_header=False, box=None, pad_edge=False)
    else:
        table = Table("", "", show_header=False, title=title, title_justify="left")
    for name, line in lines.items():
        table.add_row(name, Text(printable(line), overflow="fold"))
    return table


def printable(text: str) -> str:
    """Escape what could control the terminal or turn its writing direction; the escapes are JSON's."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else _escape(one) for one in text)


def moment(iso: str | None, *, zone: bool = True) -> str:
    """A document's time, to the second; "-" for none."""
    return "-" if iso is None else utc(datetime.datetime.fromisoformat(iso), zone=zone)


def age(seconds: float) -> str:
    """A duration in its two largest units."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02}h"


def byte_size(count: float) -> str:
    """A number of bytes in the unit that fits."""
    unit = 0
    while count >= _STEP and unit < len(_UNITS) - 1:
        count, unit = count / _STEP, unit + 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"


def ranges(span: Document, between: str = "\n") -> str:
    """First and last offset of each partition that has messages, of a document's `start` and `end`."""
    start, end = Offsets.from_nested(span["start"]), Offsets.from_nested(span["end"])
    return between.join(f"{tp}@{start[tp]}..{last - 1}" for tp, last in end.items() if last > start[tp])


def offsets(nested: Mapping[str, Any], between: str = ", ") -> str:
    """A document's position, `{topic: {partition: offset}}`."""
    return str(Offsets.from_nested(nested)).replace(", ", between)  # no topic's name has a comma


def position(message: Document) -> str:
    """Of a document's message, by its `topic`, `partition` and `offset`."""
    return str(Position(message["topic"], message["partition"], message["offset"]))


def pause_text(pause: Document) -> str:
    return f"paused by {pause['by']}, {moment(pause['at'])}" + (f": {pause['reason']}" if pause["reason"] else "")


def _escape(character: str) -> str:
    code = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))
