"""All measurements in order: for each run every workload, for each workload every system.

Each run starts with another system, so that none is always the first or the last.
"""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.bench import backlog, ceiling, machine, results, servers
from tools.bench.backlog import Backlog
from tools.bench.lane import LaneFailed
from tools.bench.peers import drain, latency, page, report, system
from tools.bench.peers.child import PeerFailed
from tools.bench.peers.page import Place
from tools.bench.peers.summary import DRAIN, LATENCY
from tools.bench.peers.system import System
from tools.bench.report import console, say
from tools.bench.results import Result
from tools.bench.servers import Servers
from tools.bench.workload import Kind

#: additional rate for latency, messages a second, for Surelane only
FAST_RATE = 10_000
#: a measurement is repeated if other programs keep more processors busy, or the host steals them
DISTURBED_LOAD = 0.25
ATTEMPTS = 3
_KEYS = (
    "rate",
    "rate_from_start",
    "p50_milliseconds",
    "p99_milliseconds",
    "cpu_seconds",
    "other_load",
    "stolen_load",
    "correct",
)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options of `./run bench-peers`."""

    #: name of the stack of local servers
    stack: str
    #: of each backlog
    messages: Sequence[int]
    workloads: Sequence[Kind]
    systems: Sequence[System]
    runs: int
    #: 0: latency is not measured
    seconds: int
    rate: int
    warm_up: int
    #: file of the page; None: no page
    page: Path | None
    #: the command line as the user typed it, for the page
    command: str


@dataclass(frozen=True, kw_only=True)
class Task:
    """One measurement."""

    name: str
    what: Result
    measure: Callable[[], Result]


def run(wanted: Wanted) -> bool:
    """Measure; returns False if a system failed or left a wrong table."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, so that no system keeps running
    say("fetching and compiling what the others need, unless it is there")
    system.fetch(wanted.systems)
    if sys.dont_write_bytecode:
        say("Python keeps no bytecode (PYTHONDONTWRITEBYTECODE): each start of Surelane compiles its modules anew")
    say("starting Kafka and Postgres")
    with servers.running(wanted.stack) as up:
        filled = [_prepared(up, kind, count) for kind in wanted.workloads for count in wanted.messages]
        say(f"others keep {machine.others_load()} of the processors busy")
        tasks = [task for number in range(wanted.runs) for task in _one_run(up, filled, wanted, number + 1)]
        done = [measured(task, f"{number}/{len(tasks)}") for number, task in enumerate(tasks, start=1)]
        postgres = str(up.stack.target.execute("select 'PostgreSQL ' || current_setting('server_version')")[0][0])
    for table in report.tables(done):
        console.print(report.shown(table))
    if wanted.page:
        place = Place(
            command=wanted.command,
            messages=wanted.messages,
            runs=wanted.runs,
            seconds=wanted.seconds,
            postgres=postgres,
        )
        page.write(wanted.page, done, place)
        say(f"written: {wanted.page} and {wanted.page.parent / page.PICTURE}")
    return all(result["correct"] for result in done)


def _prepared(up: Servers, kind: Kind, messages: int) -> Backlog:
    say(f"{messages:,} messages, workload {kind}: making them, unless they are there")
    return backlog.prepare(up, kind.shape, messages)


def _one_run(up: Servers, filled: Sequence[Backlog], wanted: Wanted, number: int) -> Iterator[Task]:
    for one in filled:
        what: Result = {"workload": one.shape.name, "messages": one.messages, "value_bytes": one.value_bytes}
        for measured in turned(wanted.systems, number):
            labels = {"system": str(measured), "run": number, **what}
            yield Task(name=DRAIN, what=labels, measure=lambda one=one, measured=measured: _drained(up, one, measured))
    if wanted.seconds:
        yield from _held(up, wanted, number)


def turned(systems: Sequence[System], number: int) -> Sequence[System]:
    """The systems in the order of run `number`; the first run is 1."""
    first = (number - 1) % len(systems)
    return [*systems[first:], *systems[:first]]


def _drained(up: Servers, filled: Backlog, measured: System) -> Result:
    return ceiling.measure(up, filled) if measured is System.CEILING else drain.measure(up, filled, measured)


def _held(up: Servers, wanted: Wanted, number: int) -> Iterator[Task]:
    held = [(measured, wanted.rate) for measured in turned(wanted.systems, number) if measured is not System.CEILING]
    if System.SURELANE in wanted.systems and wanted.rate != FAST_RATE:
        held.append((System.SURELANE, FAST_RATE))
    for measured, rate in held:
        labels: Result = {"system": str(measured), "run": number, "asked_rate": rate, "messages": rate * wanted.seconds}
        yield Task(
            name=LATENCY,
            what=labels,
            measure=lambda measured=measured, rate=rate: latency.measure(
                up, measured, rate, wanted.seconds, wanted.warm_up
            ),
        )


def measured(task: Task, number: str) -> dict[str, Any]:
    """Measure up to ATTEMPTS times, and return the least disturbed attempt; a failed one is not repeated."""
    tried = [_attempted(task, number, 1)]
    while len(tried) < ATTEMPTS and tried[-1]["correct"] and results.disturbance(tried[-1]) > DISTURBED_LOAD:
        say(f"  others, or the host, took {results.disturbance(tried[-1])} processors: once more")
        tried.append(_attempted(task, number, len(tried) + 1))
    counted = min(tried, key=lambda one: (one["correct"], results.disturbance(one)))
    return {**counted, "attempts": len(tried)}


def _attempted(task: Task, number: str, attempt: int) -> dict[str, Any]:
    """Measure once, and print the result."""
    drained = f"{task.what.get('workload')}, {task.what.get('messages'):,} messages"
    where = drained if "workload" in task.what else f"at {task.what['asked_rate']} messages/s"
    say(f"{number} {task.what['system']}, {where}, run {task.what['run']}")
    try:
        fields: dict[str, Any] = {**task.what, **task.measure()}
    except (PeerFailed, LaneFailed) as failure:
        say(str(failure))
        fields = {**task.what, "correct": False, "error": str(failure)}
    result = results.stamped(task.name, {**fields, "attempt": attempt})
    results.emit(result)
    say("  " + ", ".join(f"{key} {result[key]}" for key in _KEYS if key in result))
    return result
