"""A page of the docs that several measurements share: each rewrites its own sections, between two markers, and keeps
everything else. What is measured, and how, is written on the page by hand."""

import datetime
import os
import platform
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_GIGABYTE = 1 << 30
#: characters of a line
_WIDTH = 160


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table; each row is as long as `columns`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The title and the table in Markdown."""
        lines = [_row(self.columns), _row(["---"] * len(self.columns)), *map(_row, self.rows)]
        return "\n".join([f"### {self.title}", "", *lines])


@dataclass(frozen=True, kw_only=True)
class Section:
    """The part of the page that one measurement writes."""

    #: name in the markers of the section
    key: str
    title: str
    #: paragraphs in Markdown, and tables
    parts: Sequence[str | Table]

    def markdown(self, command: str) -> str:
        """The section in Markdown, between its markers."""
        parts = [f"`{command}`, {_place()}", *self.parts]
        texts = [part.markdown() if isinstance(part, Table) else _wrapped(part) for part in parts]
        return "\n\n".join([_begin(self.key), *texts, _end(self.key)])


def put(file: Path, section: Section, command: str) -> None:
    """Replace the section on the page; append it, with its title, if it is new."""
    text = file.read_text() if file.exists() else f"# {file.stem.capitalize()}"
    found = re.compile(rf"{re.escape(_begin(section.key))}.*?{re.escape(_end(section.key))}", re.DOTALL)
    made = section.markdown(command)
    new = f"{text.rstrip()}\n\n## {section.title}\n\n{made}\n"
    text = found.sub(lambda _: made, text) if found.search(text) else new
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _wrapped(part: str) -> str:
    """A paragraph or a list in lines of the page's width; a picture as it is."""
    if part.startswith("!"):
        return part
    lines = part.split("\n")
    wrap = textwrap.TextWrapper(_WIDTH, break_on_hyphens=False, subsequent_indent="  " if len(lines) > 1 else "")
    return "\n".join(map(wrap.fill, lines))


def _begin(key: str) -> str:
    return f"<!-- {key}: begin -->"


def _end(key: str) -> str:
    return f"<!-- {key}: end -->"


def _place() -> str:
    today, memory = datetime.datetime.now(datetime.UTC), psutil.virtual_memory().total / _GIGABYTE
    return (
        f"{today:%Y-%m-%d}, one machine with {os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GB, Python "
        f"{platform.python_version()}; broker, Postgres (fsync on), what is measured, and the one who looks, all on it."
    )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
