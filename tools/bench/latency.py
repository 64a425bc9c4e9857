"""Measures the latency from the source's commit until a change is visible on another connection, at a steady rate.

The same clock for all systems: new rows have rising keys, so one small query, `max(id)`, polled, gives the time of
every insert (35 % of the changes). An early message shows when the system is running; its start is not measured.
"""

import multiprocessing
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from confluent_kafka import Producer
from numpy.typing import NDArray

from tools.bench import replication, syncs
from tools.bench.budget import Budget
from tools.bench.child import answer, is_right, until
from tools.bench.drain import LIMIT_SECONDS
from tools.bench.lane import END, Lane
from tools.bench.machine import Snapshot
from tools.bench.pacer import SHAPE, Paced, pace
from tools.bench.servers import Cursor, Servers
from tools.bench.systems import System
from tools.bench.tables import BEGIN_MICROS, TABLE, Expected, iso
from tools.bench.workload import SENTINEL, Change, Workload, key_of, value_of

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
_NEWEST = f"select max(id) from {TABLE.name}"
_EARLY = f"select 1 from {TABLE.name} where id = {EARLY[0]}"
_LAST = f"select 1 from {TABLE.name} where id = {SENTINEL}"
FloatArray = NDArray[np.float64]


@dataclass
class Sightings:
    """When each number of a rising sequence was first seen to be visible."""

    #: a query for the highest visible one
    question: str = _NEWEST
    values: tuple[object, ...] = ()
    at: list[float] = field(default_factory=list)
    #: the highest visible number, at the time in `at`
    newest: list[int] = field(default_factory=list)

    @classmethod
    def of_offsets(cls, topic: str) -> "Sightings":
        """Of a lane's offsets, by its ledger: those below the number are visible."""
        return cls(END, (topic,))

    def look(self, cursor: Cursor) -> int:
        """Poll once; returns the highest visible number, 0 if there is none."""
        newest, now = answer(cursor, self.question, *self.values), time.time()
        if newest is not None and newest > (self.newest[-1] if self.newest else 0):
            self.at.append(now)
            self.newest.append(int(newest))
        return self.newest[-1] if self.newest else 0

    def seconds(self, numbers: NDArray[np.int64], sent_at: FloatArray) -> FloatArray:
        """Latency of each of these that was seen; the newest rows may have been deleted before a poll."""
        seen = numbers <= (self.newest[-1] if self.newest else 0)
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
        found = [(change.id, ordinal) for ordinal, change in enumerate(workload) if _is_insert(change)]
        keys, ordinals = np.array(found, np.int64).reshape(-1, 2).T
        rows = [*workload.rows.values(), EARLY]
        return cls(keys=keys, ordinals=ordinals, expected={TABLE.name: Expected.of(rows)})


def measure(servers: Servers, system: System, rate: int, seconds: int, warm_up: int) -> dict[str, Any]:
    """Measure quantiles of the latency; returns the fields of a result."""
    servers.empty_database(SHAPE.made, with_ledger=system.is_lane)
    source = _source(servers, system)
    more = SYNC_SECONDS if system.is_lane and syncs.is_possible() else 0
    inserts = Inserts.of(count := rate * (warm_up + seconds + more))
    first, end = rate * warm_up, rate * (warm_up + seconds)
    counted = (inserts.ordinals >= first) & (inserts.ordinals < end)
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        system.running(servers, TOPIC) as held,
    ):
        until(lambda: answer(cursor, _EARLY), held, "the early message", every=LOOK_SECONDS, seconds=LIMIT_SECONDS)
        sightings, budget = Sightings(), Budget(held, servers.wal_syncs) if isinstance(held, Lane) else None

        def watch(least: int) -> None:
            """Poll until this key was seen, or until all is sent."""
            while sightings.look(cursor) < least and not pacing.done():
                _ = budget and budget.look()
                held.must_live()
                time.sleep(LOOK_SECONDS)

        with paced(source, TOPIC, rate, count, is_database=system.has_source) as pacing:
            watch(inserts.keys[counted][0])
            start = Snapshot.of({**servers.cpu(), **held.cpu()})
            _ = budget and budget.begin()
            watch(inserts.keys[counted][-1])
            used = Snapshot.of({**servers.cpu(), **held.cpu()}).since(start)
            _ = budget and budget.end()
            if budget and more:
                with budget.traced(servers.stack.target.pid):
                    watch(inserts.keys[-1])
            found = pacing.result()

        def last() -> float | None:
            sightings.look(cursor)
            return answer(cursor, _LAST)

        until(last, held, "the last message", every=LOOK_SECONDS, seconds=PATIENCE_SECONDS)
        sightings.look(cursor)
        right, peaks = is_right(servers, SHAPE.made, inserts.expected), held.peaks()
    sent_at = found.sent_at[inserts.ordinals]
    latencies = sightings.seconds(inserts.keys[counted], sent_at[counted]) * 1000
    return {
        "rate": round((end - first - 1) / (found.sent_at[end - 1] - found.sent_at[first])),
        "samples": len(latencies),
        **quantiles(latencies),
        **used,
        "peak_megabytes": dict(peaks),
        **(budget.fields(found.sent_at) if budget else {}),
        "correct": right,
    }


@contextmanager
def paced(to: str, topic: str, rate: int, count: int, **options: Any) -> Iterator["Future[Paced]"]:
    """The pacer in a process of its own, see `tools.bench.pacer.pace`."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        yield process.submit(pace, to, topic, rate, count, **options)


def quantiles(milliseconds: FloatArray) -> dict[str, float]:
    """QUANTILES as fields of a result."""
    return {
        f"{name}_milliseconds": round(float(np.quantile(milliseconds, share)), 1) for name, share in QUANTILES.items()
    }


def _is_insert(change: Change) -> bool:
    return change.op == "c" and change.id != SENTINEL


def _source(servers: Servers, system: System) -> str:
    """An empty source with the early message; returns its address for the pacer."""
    if system.has_source:
        return replication.source_url(servers, TOPIC, _EARLY_CHANGE)
    servers.empty_topic(TOPIC)
    producer = Producer({"bootstrap.servers": servers.bootstrap})
    producer.produce(TOPIC, value_of(_EARLY_CHANGE, 0, BEGIN_MICROS), key_of(_EARLY_CHANGE), partition=0)
    if producer.flush(PATIENCE_SECONDS):
        raise RuntimeError(f"topic {TOPIC} could not be filled")
    return servers.bootstrap
