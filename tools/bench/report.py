"""What every command does: runs its measurements, shows their tables and goals, writes its sections of a page."""

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tools.bench import page, results, servers
from tools.bench.page import Section, Table
from tools.bench.results import Result, Task, turned
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
    #: most measurements of what others disturbed
    attempts: int = 1


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


def run(wanted: Wanted, measure: Measure) -> bool:
    """Returns False if a system failed or left a wrong table; a missed goal is only reported."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, so that no system keeps running
    say("starting Kafka and Postgres")
    with servers.running(wanted.stack) as up:
        tasks = enumerate(measure.tasks(up, wanted.runs), start=1)
        done = [results.measured(task, f"{number}.", wanted.attempts) for number, task in tasks]
    right = all(result["correct"] for result in done)
    sections = measure.sections(done)
    if judged := [goal.as_result() for section in sections for goal in section.goals]:
        results.emit(f"{measure.key}-goals", {"runs": len(done), "goals": judged, "correct": right})
    for section in sections:
        for part in section.body:
            if isinstance(part, Table):
                show(part)
        if wanted.report:
            page.put(wanted.report, section, wanted.command)
    if wanted.report:
        say(f"written: {wanted.report}")
    return right
