"""Surelane and other systems: each drains the same topic into the same tables and holds the same rates, in one run, on
one machine; also with a distance between them and Postgres.

In each run every system is measured once; each run starts with another system, so that none is always first or last.
"""

import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tools.bench import backlog, ceiling, compared, drain, latency, machine, report, systems, warm_up
from tools.bench.backlog import Backlog
from tools.bench.compared import DRAIN, LATENCY
from tools.bench.distance import at_distance
from tools.bench.results import Result, Task, rehearse
from tools.bench.servers import Servers
from tools.bench.systems import System
from tools.bench.terminal import say
from tools.bench.workload import Kind, as_many_bytes

#: messages a second of the rehearsal
_REHEARSAL_RATE = 1000


@dataclass(frozen=True, kw_only=True)
class Wanted(report.Wanted):
    """Options of `./run bench` and `./run bench-peers`."""

    systems: Sequence[System]
    #: DRAIN, LATENCY or both
    measures: Sequence[str]
    #: of each backlog: messages of 792 bytes; fewer where they are longer
    messages: Sequence[int]
    workloads: Sequence[Kind]
    #: of latency: messages a second, and seconds at each
    rates: Sequence[int]
    seconds: int
    warm_up: int
    #: seconds of each system before any is measured; 0: none
    rehearsal: int
    #: most measurements of what others disturbed
    attempts: int = 1
    #: milliseconds between each system and Postgres; empty: none are added
    round_trips: Sequence[float] = ()


def run(wanted: Wanted) -> bool:
    """Measure; returns False if a system failed or left a wrong table."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, so that no system keeps running
    say("fetching and compiling what the systems need, unless it is there")
    systems.fetch(wanted.systems)
    if sys.dont_write_bytecode:
        say("Python keeps no bytecode (PYTHONDONTWRITEBYTECODE): each start of Surelane compiles its modules anew")
    done = report.measured(wanted, partial(_tasks, wanted), wanted.attempts)
    sections = compared.sections(done, wanted.messages, wanted.runs, wanted.seconds)
    if wanted.report and (drawn := compared.picture(done)):
        wanted.report.parent.mkdir(parents=True, exist_ok=True)
        (wanted.report.parent / compared.PICTURE).write_text(drawn)
    return report.finish(wanted, "compare", done, sections, compared.goals(done))


def _tasks(wanted: Wanted, up: Servers) -> Iterator[Task]:
    filled = [_prepared(up, wanted, kind, count) for kind in wanted.workloads for count in wanted.messages]
    for one in filter(None, filled):
        say(f"reading {one.topic} through, so that the broker is warm")
        warm_up.read_through(up, one)
    if LATENCY in wanted.measures and wanted.rehearsal:
        _rehearse(up, wanted)
    say(f"others keep {machine.others_load()} of the processors busy")
    for number in range(1, wanted.runs + 1):
        for round_trip in wanted.round_trips or [None]:
            away = {} if round_trip is None else {"round_trip": round_trip}
            order = [one for one in report.turned(wanted.systems, number) if one.can_be_away or not away]
            if DRAIN in wanted.measures:
                yield from _drains(up, filled, order, {**away, "run": number})
            if LATENCY in wanted.measures:
                yield from _latencies(up, wanted, order, {**away, "run": number})


def _rehearse(up: Servers, wanted: Wanted) -> None:
    """Have each system at work for a while."""
    for system in (one for one in wanted.systems if one.start is not None):
        what = f"{system.name}, {wanted.rehearsal} s at {_REHEARSAL_RATE:,} messages/s"
        rehearse(what, partial(latency.measure, up, system, _REHEARSAL_RATE, wanted.rehearsal, warm_up=1))


def _prepared(up: Servers, wanted: Wanted, kind: Kind, messages: int) -> Backlog | None:
    if DRAIN not in wanted.measures:
        return None
    messages = as_many_bytes(kind.shape, messages)
    say(f"{messages:,} messages, workload {kind}: making them, unless they are there")
    made = backlog.prepare(up, kind.shape, messages)
    for one in wanted.systems:
        one.prepare(up, made)
    return made


def _drains(up: Servers, filled: Sequence[Backlog | None], order: Sequence[System], what: Result) -> Iterator[Task]:
    for one in filter(None, filled):
        of_backlog = {"workload": one.shape.name, "messages": one.messages, "value_bytes": one.value_bytes}
        for system in order:
            labels = {"system": system.name, **of_backlog, **what}
            yield Task(name=DRAIN, what=labels, measure=partial(_drain, up, one, system, what.get("round_trip")))


def _drain(up: Servers, filled: Backlog, system: System, round_trip: float | None) -> Result:
    if system.start is None:
        return ceiling.measure(up, filled)
    with at_distance(up, round_trip) as there:
        return {**_away(there), **drain.measure(there, filled, system)}


def _latencies(up: Servers, wanted: Wanted, order: Sequence[System], what: Result) -> Iterator[Task]:
    for rate in wanted.rates:
        for system in (one for one in order if one.start is not None):
            labels = {"system": system.name, "asked_rate": rate, "messages": rate * wanted.seconds, **what}
            yield Task(name=LATENCY, what=labels, measure=partial(_latency, up, wanted, system, rate, what))


def _latency(up: Servers, wanted: Wanted, system: System, rate: int, what: Result) -> Result:
    with at_distance(up, what.get("round_trip")) as there:
        return {**_away(there), **latency.measure(there, system, rate, wanted.seconds, wanted.warm_up)}


def _away(there: Servers) -> Result:
    """What `SELECT 1` takes."""
    if there.distance is None:
        return {}
    return {"select_milliseconds": there.distance.found, "direct_milliseconds": there.distance.direct}
