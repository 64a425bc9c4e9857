"""What every command does at its end: shows its tables and goals, writes its sections, says whether all was right."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.bench import goals, page, results, servers
from tools.bench.goals import Goal
from tools.bench.page import Section, Table
from tools.bench.results import Result, Task
from tools.bench.servers import Servers
from tools.bench.terminal import say, show


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options of every command."""

    #: name of the stack of local servers
    stack: str
    runs: int
    #: page with the sections; None: none are written
    report: Path | None
    #: the command line as the user typed it, for the page
    command: str


def measured(wanted: Wanted, tasks: Callable[[Servers], Iterable[Task]], attempts: int = 1) -> list[Result]:
    """Start the servers and measure all tasks in order."""
    say("starting Kafka and Postgres")
    with servers.running(wanted.stack) as up:
        return [results.measured(task, f"{number}.", attempts) for number, task in enumerate(tasks(up), start=1)]


def finish(
    wanted: Wanted, name: str, done: Sequence[Mapping[str, Any]], sections: Sequence[Section], judged: Sequence[Goal]
) -> bool:
    """Returns False if a system failed or left a wrong table; a missed goal is only reported."""
    right = all(result["correct"] for result in done)
    if judged:
        summary = {"runs": len(done), "goals": [goal.as_result() for goal in judged], "correct": right}
        results.emit(results.stamped(f"{name}-goals", summary))
    for section in sections:
        for part in section.parts:
            if isinstance(part, Table):
                show(part)
    if wanted.report:
        for section in sections:
            page.put(wanted.report, section, wanted.command)
        say(f"written: {wanted.report}")
    return right


def with_goals(parts: Sequence[str | Table], judged: Sequence[Goal]) -> Sequence[str | Table]:
    """Parts of a section, and its goals."""
    return [*parts, *([goals.table(judged)] if judged else [])]


def number(value: float | None, digits: int = 0) -> str:
    """A figure in a table; empty if there is none."""
    return "" if value is None else f"{value:,.{digits}f}"
