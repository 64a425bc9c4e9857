"""A page of the docs that several measurements share: each rewrites its own sections, between two markers, and keeps
everything else. What is measured, and how, is written on the page by hand."""

import datetime
import os
import platform
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

_GIGABYTE = 1 << 30
#: characters of a line
_WIDTH = 160
#: characters of a bar, and of a sparkline at most; heights of its blocks
_BAR, _BLOCKS = 24, "▁▂▃▄▅▆▇█"
#: the head of a column, and its cell for what a row is about
Column = tuple[str, Callable[[Any], str]]


def number(value: float | str | None, digits: int = 0) -> str:
    """A figure in a table, or a word as it is; empty if there is none."""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,.{digits}f}"


def bar(value: float | None, most: float) -> str:
    """The value as a bar, as part of the largest one's."""
    return "█" * round(_BAR * (value or 0.0) / most)


def sparkline(values: Sequence[float]) -> str:
    """The values over time, as many as a cell has room for; the lowest block is 0."""
    step = len(values) // _BAR + 1
    most = max(values) or 1.0
    return "".join(_BLOCKS[round((len(_BLOCKS) - 1) * value / most)] for value in values[::step])


@dataclass(frozen=True)
class Table:
    """A table; each row is as long as `columns`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(cls, title: str, columns: Sequence[Column], items: Iterable[Any]) -> "Table":
        """A row for each item."""
        rows = [[cell(item) for _, cell in columns] for item in items]
        return cls(title, [head for head, _ in columns], rows)

    def markdown(self) -> str:
        """The title and the table."""
        lines = [_row(self.columns), _row(["---"] * len(self.columns)), *map(_row, self.rows)]
        return "\n".join([f"### {self.title}", "", *lines])


@dataclass(frozen=True)
class Goal:
    """A limit for a figure."""

    what: str
    limit: float
    #: None: too little data to judge, or a wrong table
    found: float | None
    unit: str = ""
    at_least: bool = False
    #: all figures of which `found` is the worst
    detail: str = ""

    @property
    def verdict(self) -> str:
        if self.found is None:
            return "not judged"
        reached = self.found >= self.limit if self.at_least else self.found <= self.limit
        return "reached" if reached else "MISSED"

    @property
    def asked(self) -> str:
        """The limit as a sentence has it."""
        return f"{'at least' if self.at_least else 'at most'} {self.limit:g} {self.unit}".rstrip()

    def as_result(self) -> dict[str, object]:
        """Fields for a JSON line."""
        return {**asdict(self), "verdict": self.verdict}


@dataclass(frozen=True)
class Section:
    """The part of the page that one measurement writes."""

    #: name in the markers of the section
    key: str
    title: str
    #: paragraphs in Markdown, and tables
    parts: Sequence[str | Table]
    goals: Sequence[Goal] = ()

    @property
    def body(self) -> list[str | Table]:
        """The parts but for empty tables, and the goals."""
        parts = [*self.parts, _judged(self.goals)]
        return [part for part in parts if not isinstance(part, Table) or part.rows]

    def markdown(self, command: str) -> str:
        """The section between its markers."""
        parts = [f"`{command}`, {_place()}", *self.body]
        texts = [_wrapped(part) if isinstance(part, str) else part.markdown() for part in parts]
        begin, end = _marks(self.key)
        return "\n\n".join([begin, *texts, end])


def put(file: Path, section: Section, command: str) -> None:
    """Replace the section on the page; append it, with its title, if it is new."""
    text = file.read_text() if file.exists() else f"# {file.stem.capitalize()}"
    found = re.compile(".*?".join(map(re.escape, _marks(section.key))), re.DOTALL)
    made = section.markdown(command)
    new = f"{text.rstrip()}\n\n## {section.title}\n\n{made}\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(found.sub(lambda _: made, text) if found.search(text) else new)


def _judged(goals: Sequence[Goal]) -> Table:
    has_detail = any(goal.detail for goal in goals)
    columns: list[Column] = [
        ("goal", lambda goal: goal.what),
        ("limit", lambda goal: goal.asked),
        ("worst" if has_detail else "found", lambda goal: number(goal.found, 2)),
        *([("all", lambda goal: goal.detail)] if has_detail else []),
        ("", lambda goal: goal.verdict),
    ]
    return Table.of("Goals", columns, goals)


def _wrapped(part: str) -> str:
    """A paragraph or a list in lines of the page's width."""
    lines = part.split("\n")
    wrap = textwrap.TextWrapper(_WIDTH, break_on_hyphens=False, subsequent_indent="  " if len(lines) > 1 else "")
    return "\n".join(map(wrap.fill, lines))


def _marks(key: str) -> tuple[str, str]:
    return f"<!-- {key}: begin -->", f"<!-- {key}: end -->"


def _place() -> str:
    today, memory = datetime.datetime.now(datetime.UTC), psutil.virtual_memory().total / _GIGABYTE
    return (
        f"{today:%Y-%m-%d}, one machine with {os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GB, Python "
        f"{platform.python_version()}; broker, Postgres (fsync on), what is measured, and the one who looks, all on it."
    )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
