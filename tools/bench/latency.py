"""Measures the latency from the source's commit until a change is visible on another connection, at a steady rate.

The same clock for all systems: new rows have rising keys, so one small query, `max(id)`, polled, gives the time of
every insert (35 % of the changes). An early message shows when the system is running; its start is not measured.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.bench.budget import Budget, can_trace
from tools.bench.plan import Plan
from tools.bench.results import Task, rehearse
from tools.bench.trial import Trial, trial
from tools.peers import replication
from tools.peers.lane import END
from tools.peers.systems import System
from tools.testbed.distance import at_distance
from tools.testbed.pacer import SHAPE, paced
from tools.testbed.servers import Servers
from tools.testbed.tables import BEGIN_MICROS, TABLE, Expected, iso
from tools.testbed.topic import PROMPT, filling
from tools.testbed.workload import SENTINEL, Change, Workload, key_of, value_of

TOPIC = "bench.latency"
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
#: seconds between two polls
LOOK_SECONDS = 0.002
#: seconds until the last message must be visible
PATIENCE_SECONDS = 60.0
#: seconds of load after those that count, in which a lane's syncs are traced: tracing slows it down
SYNC_SECONDS = 5
#: row of the early message, which precedes all others; no workload has this id
EARLY = ("-2", "early", "0.00", "new", "early", iso(str(BEGIN_MICROS)))
_EARLY_CHANGE = Change("c", TABLE, int(EARLY[0]), None, EARLY)
#: messages a second of the rehearsal
_REHEARSAL_RATE = 1000
_ROW = f"select 1 from {TABLE.name} where id = "
FloatArray = NDArray[np.float64]


def tasks(plan: Plan, up: Servers) -> Iterator[Task]:
    for system in plan.systems if plan.rehearsal else ():
        what = f"{system.name}, {plan.rehearsal} s at {_REHEARSAL_RATE:,} messages/s"
        rehearse(what, partial(measure, up, system, _REHEARSAL_RATE, plan.rehearsal, warm_up=1))
    for run, round_trip, rate, system in plan.passes(plan.rates):
        what = {"system": system.name, "asked_rate": rate, "messages": rate * plan.seconds, "round_trip": round_trip}
        yield Task({**what, "run": run}, partial(_measured, plan, up, round_trip, rate, system))


def _measured(plan: Plan, up: Servers, round_trip: float | None, rate: int, system: System) -> dict[str, Any]:
    return at_distance(up, round_trip, lambda there: measure(there, system, rate, plan.seconds, plan.warm_up))


@dataclass
class Sightings:
    """When each number of a rising sequence was first seen to be visible."""

    #: a query for the highest visible one
    question: str = f"select max(id) from {TABLE.name}"
    values: tuple[object, ...] = ()
    at: list[float] = field(default_factory=list)
    #: the highest visible number, at the time in `at`
    newest: list[int] = field(default_factory=list)

    @classmethod
    def of_offsets(cls, topic: str) -> "Sightings":
        """Of a lane's offsets, by its ledger: those below the number are visible."""
        return cls(END, (topic,))

    @property
    def highest(self) -> int:
        """The highest number that was seen; 0 if there is none."""
        return self.newest[-1] if self.newest else 0

    def look(self, one: Trial) -> int:
        """Poll once; returns the highest visible number."""
        newest, now = one.answer(self.question, *self.values), time.time()
        if newest is not None and newest > self.highest:
            self.at.append(now)
            self.newest.append(int(newest))
        return self.highest

    def seconds(self, numbers: NDArray[np.int64], sent_at: FloatArray) -> FloatArray:
        """Latency of each of these that was seen; the newest rows may have been deleted before a poll."""
        seen = numbers <= self.highest
        return np.array(self.at)[np.searchsorted(self.newest, numbers[seen])] - sent_at[seen]


@dataclass(frozen=True, kw_only=True)
class Inserts:
    """The inserts of a workload, with keys and message ordinals, and the final content of the table."""

    keys: NDArray[np.int64]
    ordinals: NDArray[np.int64]
    expected: Mapping[str, Expected]

    @classmethod
    def of(cls, count: int) -> "Inserts":
        """The inserts of the pacer's workload of `count` changes, which follow the early message."""
        workload = Workload(SHAPE, count)
        found = [(one.id, ordinal) for ordinal, one in enumerate(workload) if one.op == "c" and one.id != SENTINEL]
        keys, ordinals = np.array(found, np.int64).reshape(-1, 2).T
        rows = [*workload.rows.values(), EARLY]
        return cls(keys=keys, ordinals=ordinals, expected={TABLE.name: Expected.of(rows)})


def measure(servers: Servers, system: System, rate: int, seconds: int, warm_up: int) -> dict[str, Any]:
    """Measure quantiles of the latency; returns the fields of a result."""
    more = SYNC_SECONDS if system.is_lane and can_trace() else 0
    inserts = Inserts.of(count := rate * (warm_up + seconds + more))
    first, end = rate * warm_up, rate * (warm_up + seconds)
    counted = (inserts.ordinals >= first) & (inserts.ordinals < end)
    source, sightings = _source(servers, system), Sightings()
    with trial(servers, system, TOPIC, [TABLE.ddl], LOOK_SECONDS) as one:
        one.until(f"{_ROW}{EARLY[0]}", "the early message")
        budget = Budget(one)
        with paced(source, TOPIC, rate, count, is_database=system.has_source) as pacing:

            def watch(least: int) -> None:
                """Poll until this key was seen, or until all is sent."""
                while sightings.look(one) < least and not pacing.done():
                    budget.look()
                    one.held.must_live()
                    time.sleep(LOOK_SECONDS)

            watch(inserts.keys[counted][0])
            start = one.snapshot()
            budget.begin()
            watch(inserts.keys[counted][-1])
            used = one.snapshot().since(start)
            budget.end()
            if more:
                with budget.traced():
                    watch(inserts.keys[-1])
            sent_at = pacing.result().sent_at

        def last() -> float | None:
            sightings.look(one)
            return one.answer(f"{_ROW}{SENTINEL}")

        one.until(last, "the last message", seconds=PATIENCE_SECONDS)
        hidden = budget.since_entry(time.time())
        sightings.look(one)
        peaks = one.held.peaks()
        ended = one.end(one.reaches([TABLE], inserts.expected))
    latencies = sightings.seconds(inserts.keys[counted], sent_at[inserts.ordinals][counted]) * 1000
    return {
        "rate": round((end - first - 1) / (sent_at[end - 1] - sent_at[first])),
        "samples": len(latencies),
        **quantiles(latencies),
        **used,
        "peak_megabytes": dict(peaks),
        "last_hidden_milliseconds": hidden,
        **budget.fields(sent_at),
        **ended,
    }


def quantiles(milliseconds: FloatArray, ending: str = "_milliseconds") -> dict[str, float]:
    """QUANTILES, with this ending of their names."""
    return {f"{name}{ending}": round(float(np.quantile(milliseconds, one)), 1) for name, one in QUANTILES.items()}


def _source(servers: Servers, system: System) -> str:
    """An empty source with the early message; returns its address for the pacer."""
    if system.has_source:
        return replication.source_url(servers, TOPIC, _EARLY_CHANGE)
    servers.empty_topic(TOPIC)
    with filling(servers.bootstrap, TOPIC, PROMPT) as send:
        send(value_of(_EARLY_CHANGE, 0, BEGIN_MICROS), key_of(_EARLY_CHANGE))
    return servers.bootstrap
