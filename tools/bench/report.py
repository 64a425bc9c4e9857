"""What every command does: runs its measurements, shows their tables and goals, writes its sections of a page."""

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich import table

from tools.bench import page, results
from tools.bench.page import Section, Table
from tools.bench.results import Result, Task, console, say, turned
from tools.testbed import servers
from tools.testbed.servers import Servers

_COLOURS = {"not judged": "yellow", "reached": "green", "MISSED": "red", "right": "green", "WRONG": "red"}


@dataclass(frozen=True)
class Measure:
    """What one command measures, and its sections of the page."""

    key: str
    #: everything that is measured, in order; takes the number of runs
    tasks: Callable[[Servers, int], Iterable[Task]]
    sections: Callable[[Sequence[Result]], Sequence[Section]]


def in_rounds(cases: Callable[[Servers], Sequence[Task]]) -> Callable[[Servers, int], Iterator[Task]]:
    """Each of the cases once in each run; each run begins with another one."""

    def tasks(up: Servers, runs: int) -> Iterator[Task]:
        known = cases(up)
        for number in range(1, runs + 1):
            for task in turned(known, number):
                yield replace(task, what={**task.what, "run": number})

    return tasks


def run(measure: Measure, stack: str, runs: int, file: Path | None, command: str, attempts: int) -> bool:
    """Returns False if a system failed or left a wrong table; a missed goal is only reported.

    `stack`: name of the stack of local servers; `file`: page with the sections, if they are wanted; `command`: as the
    user typed it; `attempts`: most measurements of what others disturbed.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, so that no system keeps running
    say("starting Kafka and Postgres")
    with servers.running(stack) as up:
        tasks = enumerate(measure.tasks(up, runs), start=1)
        done = [results.measured(task, f"{number}.", attempts) for number, task in tasks]
    right = all(result["correct"] for result in done)
    sections = measure.sections(done)
    if judged := [goal.as_result() for section in sections for goal in section.goals]:
        results.emit(f"{measure.key}-goals", {"runs": len(done), "goals": judged, "correct": right})
    for section in sections:
        for part in section.body:
            if isinstance(part, Table):
                _show(part)
        if file:
            page.put(file, section, command)
            say(f"written: {file}, {section.title}")
    return right


def _show(one: Table) -> None:
    """Print the table with verdicts in colour."""
    made = table.Table(*one.columns, title=one.title, title_justify="left")
    for row in one.rows:
        made.add_row(*[f"[{_COLOURS[text]}]{text}[/]" if text in _COLOURS else text for text in row])
    console.print(made)
