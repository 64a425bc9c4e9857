"""The table of measures, and `./run bench`: measures, shows tables and goals, writes sections of a page."""

import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich import table

from app.errors import ConfigInvalid
from tools.bench import (
    costs,
    drain,
    drain_page,
    features,
    kill,
    latency,
    latency_page,
    page,
    results,
    soak,
    start,
    windows,
)
from tools.bench.page import Section, Table
from tools.bench.plan import Measure, Plan
from tools.bench.results import Result, console, say, turned
from tools.peers.systems import SYSTEMS, System
from tools.testbed import servers
from tools.testbed.servers import Servers

_is_lane: Callable[[System], bool] = lambda one: one.is_lane  # noqa: E731
MEASURES: Mapping[str, Measure] = {
    "drain": Measure(drain.rounds, drain_page.sections),
    "latency": Measure(latency.rounds, latency_page.sections, takes=lambda one: one.start is not None),
    "start": Measure(start.rounds, start.sections, takes=_is_lane),
    "kill": Measure(kill.rounds, kill.sections, takes=_is_lane),
    "soak": Measure(soak.rounds, soak.sections, takes=_is_lane),
    "soak-query": Measure(soak.rounds_of_query, soak.sections),
    "costs": Measure(costs.rounds, costs.sections),
    "features": Measure(features.rounds, features.sections),
    "windows": Measure(windows.rounds, windows.sections),
}
_COLOURS = {"not judged": "yellow", "reached": "green", "MISSED": "red", "right": "green", "WRONG": "red"}


def run(plan: Plan, names: Sequence[str], stack: str, runs: int, report: Path | None, command: str) -> bool:
    """Returns False if a system failed or left a wrong table; a missed goal is only reported.

    `stack`: name of the stack of local servers; `report`: page with the sections, if they are wanted; `command`: as the
    user typed it.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, so that no system keeps running
    plans = {name: _of_measure(plan, name) for name in names}
    say("fetching and compiling what the systems need, unless it is there")
    for system in plan.systems:
        system.fetch()
    if sys.dont_write_bytecode:
        say("Python keeps no bytecode (PYTHONDONTWRITEBYTECODE): each start of Surelane compiles its modules anew")
    right = True
    with servers.running(stack) as up:
        for name, its in plans.items():
            done = list(_measured(name, its, up, runs))
            right &= all(one["correct"] for one in done)
            sections = list(MEASURES[name].sections(its, done))
            if judged := [goal.as_result() for section in sections for goal in section.goals]:
                is_right = all(one["correct"] for one in done)
                results.emit(f"{name}-goals", {"runs": runs, "goals": judged, "correct": is_right})
            for section in sections:
                _shown(section, report, command)
    if report:
        described = "\n".join(f"- `{one.name}`: {one.described}" for one in SYSTEMS.values())
        page.put(report, Section("systems", "What is compared", [described]), command)
    return right


def _of_measure(plan: Plan, name: str) -> Plan:
    """With the systems that it takes."""
    systems = [one for one in plan.systems if MEASURES[name].takes(one)]
    if not systems:
        known = ", ".join(one.name for one in SYSTEMS.values() if MEASURES[name].takes(one))
        raise ConfigInvalid(f"--systems: {name} has nothing to measure", hint=f"one of {known}")
    return replace(plan, systems=systems)


def _measured(name: str, plan: Plan, up: Servers, runs: int) -> Iterator[Result]:
    """Each round once in each run; each run begins with another of its tasks."""
    for tasks in MEASURES[name].rounds(plan, up):
        for number in range(1, runs + 1):
            for task in turned(tasks, number):
                numbered = replace(task, what={**task.what, "run": number})
                yield results.measured(name, numbered)


def _shown(section: Section, report: Path | None, command: str) -> None:
    """Print its tables with verdicts in colour; write it."""
    for part in section.body:
        if isinstance(part, Table):
            made = table.Table(*part.columns, title=part.title, title_justify="left")
            for row in part.rows:
                made.add_row(*[f"[{_COLOURS[text]}]{text}[/]" if text in _COLOURS else text for text in row])
            console.print(made)
    if report:
        page.put(report, section, command)
        say(f"written: {report}, {section.title}")
