"""What every command does at its end: shows its tables and goals, writes its sections, says whether all was right."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

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


#: fields of a result that are known before, and what measures the others
Case = tuple[Result, Callable[[], Result]]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What one command measures, and what its section of the page has."""

    key: str
    title: str
    #: each is measured `Wanted.runs` times; each run begins with another one
    cases: Callable[[Servers], Iterable[Case]]
    parts: Callable[[Sequence[Result]], Sequence[str | Table]]
    goals: Callable[[Sequence[Result]], Sequence[Goal]] = lambda _: ()


def run(wanted: Wanted, measure: Measure) -> bool:
    """Returns False if a system failed or left a wrong table; a missed goal is only reported."""

    def tasks(up: Servers) -> Iterator[Task]:
        cases = list(measure.cases(up))
        for number in range(1, wanted.runs + 1):
            for what, measured in turned(cases, number):
                yield Task(name=measure.key, what={**what, "run": number}, measure=measured)

    done = measured(wanted, tasks)
    judged = measure.goals(done)
    section = Section(key=measure.key, title=measure.title, parts=with_goals(measure.parts(done), judged))
    return finish(wanted, measure.key, done, [section], judged)


def turned(items: Sequence[T], number: int) -> Sequence[T]:
    """In the order of run `number`, so that each run begins with another one; the first run is 1."""
    first = (number - 1) % len(items)
    return [*items[first:], *items[:first]]


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
