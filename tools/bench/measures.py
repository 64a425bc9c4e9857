"""The table of measures, and `./run bench`: measures, shows tables and goals, writes sections of a page."""

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
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
from tools.bench.results import FAILURES, Result, console, say
from tools.peers.systems import SYSTEMS
from tools.testbed import servers
from tools.testbed.servers import Servers

_is_lane = attrgetter("is_lane")
MEASURES: Mapping[str, Measure] = {
    "drain": Measure(tasks=drain.tasks, sections=drain_page.sections, takes=lambda _: True, far=True),
    "latency": Measure(tasks=latency.tasks, sections=latency_page.sections, takes=attrgetter("start"), far=True),
    "start": Measure(tasks=start.tasks, sections=start.sections, takes=_is_lane),
    "kill": Measure(tasks=kill.tasks, sections=kill.sections, takes=_is_lane),
    "soak": Measure(tasks=soak.tasks, sections=soak.sections, takes=_is_lane),
    "soak-query": Measure(tasks=soak.tasks_of_query, sections=soak.sections),
    "costs": Measure(tasks=costs.tasks, sections=costs.sections),
    "features": Measure(tasks=features.tasks, sections=features.sections),
    "windows": Measure(tasks=windows.tasks, sections=windows.sections, fetch=windows.fetch),
}
_COLOURS = {"not judged": "yellow", "reached": "green", "MISSED": "red", "right": "green", "WRONG": "red"}


def run(plan: Plan, names: Sequence[str], stack: str, report: Path | None, command: str) -> bool:
    """Returns False if a system failed or left a wrong table; a missed goal is only reported.

    `stack`: name of the stack of local servers; `report`: page with the sections, if they are wanted; `command`: as the
    user typed it.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, so that no system keeps running
    plans = {name: of_measure(plan, name) for name in names}
    say("fetching and compiling what the systems need, unless it is there")
    for name, its in plans.items():
        MEASURES[name].fetch()
        for system in its.systems:
            system.fetch()
    if sys.dont_write_bytecode:
        say("Python keeps no bytecode (PYTHONDONTWRITEBYTECODE): each start of Surelane compiles its modules anew")
    right = True
    with servers.running(stack) as up:
        for name, its in plans.items():
            done, is_right = _measured(name, its, up)
            right &= is_right
            sections = list(MEASURES[name].sections(its, done)) if done else []
            if judged := [goal.as_result() for section in sections for goal in section.goals]:
                results.emit(f"{name}-goals", {"runs": its.runs, "goals": judged, "correct": is_right})
            for section in sections:
                _shown(section, report, command)
            if report and MEASURES[name].far:
                described = "\n".join(f"- `{one.name}`: {one.described}" for one in SYSTEMS.values())
                page.put(report, Section("systems", "What is compared", [described]), command)
    return right


def of_measure(plan: Plan, name: str) -> Plan:
    """With the systems and round trips that the measure takes; raises ConfigInvalid if there is no system."""
    measure = MEASURES[name]
    takes = measure.takes
    if takes is None:
        return replace(plan, systems=[], round_trips=[])
    is_far = measure.far and bool(plan.round_trips)
    taken = [one for one in SYSTEMS.values() if takes(one) and (one.can_be_away or not is_far)]
    chosen = [one for one in plan.systems if one in taken]
    if not chosen:
        known = ", ".join(one.name for one in taken)
        raise ConfigInvalid(f"--systems: {name} has nothing to measure", hint=f"one of {known}")
    if left := [one.name for one in plan.systems if one not in chosen]:
        say(f"{name} leaves out {', '.join(left)}")
    return replace(plan, systems=chosen, round_trips=plan.round_trips if is_far else [])


def _measured(name: str, plan: Plan, up: Servers) -> tuple[list[Result], bool]:
    """What was measured, and whether all of it was right."""
    done: list[Result] = []
    try:
        for task in MEASURES[name].tasks(plan, up):
            done.append(results.measured(name, task))  # noqa: PERF401 - what is done stays when another one fails
    except FAILURES as failure:  # of what is made before, as a backlog
        say(f"{name}: {type(failure).__name__}: {failure}")
        return done, False
    return done, all(one["correct"] for one in done)


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
