"""Surelane and other systems: each drains the same topic into the same tables and holds the same rates, in one run, on
one machine; also with a distance between them and Postgres.

In each run every system is measured once; each run starts with another system, so that none is always first or last.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tools.bench import ceiling, compared, drain, latency
from tools.bench.compared import DRAIN, LATENCY
from tools.bench.report import Measure
from tools.bench.results import Result, Task, rehearse, say, turned
from tools.peers.systems import System
from tools.testbed import backlog
from tools.testbed.backlog import Backlog
from tools.testbed.distance import at_distance
from tools.testbed.servers import Servers
from tools.testbed.workload import Kind, as_many_bytes

#: messages a second of the rehearsal
_REHEARSAL_RATE = 1000


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What `./run bench` and `./run bench-peers` measure."""

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
    #: milliseconds between each system and Postgres; empty: none are added
    round_trips: Sequence[float] = ()

    def measure(self, runs: int) -> Measure:
        return Measure("compare", self._tasks, lambda done: compared.sections(done, runs, self.seconds))

    def _tasks(self, up: Servers, runs: int) -> Iterator[Task]:
        say("fetching and compiling what the systems need, unless it is there")
        for system in self.systems:
            system.fetch()
        if sys.dont_write_bytecode:
            say("Python keeps no bytecode (PYTHONDONTWRITEBYTECODE): each start of Surelane compiles its modules anew")
        filled: list[Backlog] = []
        if DRAIN in self.measures:
            filled = [self._prepared(up, kind, count) for kind in self.workloads for count in self.messages]
        for one in filled:
            say(f"reading {one.topic} through, so that the broker is warm")
            backlog.read_through(up, one)
        if LATENCY in self.measures and self.rehearsal:
            self._rehearse(up)
        for number in range(1, runs + 1):
            for round_trip in self.round_trips or [None]:
                away = {} if round_trip is None else {"round_trip": round_trip}
                order = [one for one in turned(self.systems, number) if one.can_be_away or not away]
                for one in filled:
                    for system in order:
                        yield _drained(up, one, system, {**away, "run": number})
                if LATENCY in self.measures:
                    for rate in self.rates:
                        for system in (one for one in order if one.start is not None):
                            yield self._held(up, system, rate, {**away, "run": number})

    def _prepared(self, up: Servers, kind: Kind, messages: int) -> Backlog:
        messages = as_many_bytes(kind.shape, messages)
        say(f"{messages:,} messages, workload {kind}: making them, unless they are there")
        made = backlog.prepare(up, kind.shape, messages)
        for one in self.systems:
            one.prepare(up, made)
        return made

    def _rehearse(self, up: Servers) -> None:
        """Have each system at work for a while."""
        for system in (one for one in self.systems if one.start is not None):
            what = f"{system.name}, {self.rehearsal} s at {_REHEARSAL_RATE:,} messages/s"
            rehearse(what, partial(latency.measure, up, system, _REHEARSAL_RATE, self.rehearsal, warm_up=1))

    def _held(self, up: Servers, system: System, rate: int, where: Result) -> Task:
        def measure() -> Result:
            with at_distance(up, where.get("round_trip")) as (there, away):
                return {**away, **latency.measure(there, system, rate, self.seconds, self.warm_up)}

        what = {"system": system.name, "asked_rate": rate, "messages": rate * self.seconds}
        return Task(LATENCY, {**what, **where}, measure)


def _drained(up: Servers, filled: Backlog, system: System, where: Result) -> Task:
    def measure() -> Result:
        if system.start is None:
            return ceiling.measure(up, filled)
        with at_distance(up, where.get("round_trip")) as (there, away):
            return {**away, **drain.measure(there, filled, system)}

    of_backlog = {"workload": filled.shape.name, "messages": filled.messages, "value_bytes": filled.value_bytes}
    return Task(DRAIN, {"system": system.name, **of_backlog, **where}, measure)
