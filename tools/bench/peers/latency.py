"""Measures the latency from the source's commit until a change is visible on another connection, at a steady rate.

The same clock for all systems: new rows have rising keys, so one small query, `max(id)`, polled, gives the time of
every insert (35 % of the changes). An early message shows when the system is running; its start is not measured.
"""

import multiprocessing
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from confluent_kafka import Producer
from numpy.typing import NDArray

from tools.bench.drain import LIMIT_SECONDS
from tools.bench.latency import PATIENCE_SECONDS, QUANTILES
from tools.bench.machine import Snapshot
from tools.bench.pacer import SHAPE, pace
from tools.bench.peers import look, system
from tools.bench.peers.system import System
from tools.bench.peers.target import TABLE
from tools.bench.servers import Cursor, Servers
from tools.bench.tables import BEGIN_MICROS, Expected, iso
from tools.bench.workload import SENTINEL, Change, Workload, key_of, value_of

TOPIC = "tools.bench.peers.latency"
LOOK_SECONDS = 0.002
#: row of the early message, which precedes all others; no workload has this id
EARLY = ("-2", "early", "0.00", "new", "early", iso(str(BEGIN_MICROS)))
_NEWEST = f"select max(id) from {TABLE.name}"
_EARLY = f"select 1 from {TABLE.name} where id = {EARLY[0]}"
_LAST = f"select 1 from {TABLE.name} where id = {SENTINEL}"


@dataclass
class Sightings:
    """When each key was first seen as the highest."""

    at: list[float] = field(default_factory=list)
    newest: list[int] = field(default_factory=list)

    def look(self, cursor: Cursor) -> None:
        """Poll once."""
        newest = look.answer(cursor, _NEWEST)
        if newest is not None and newest > (self.newest[-1] if self.newest else 0):
            self.at.append(time.time())
            self.newest.append(int(newest))

    def seconds(self, keys: NDArray[np.int64], sent_at: NDArray[np.float64]) -> NDArray[np.float64]:
        """Latency of each observed insert; the newest rows may have been deleted before a poll."""
        seen = keys <= (self.newest[-1] if self.newest else 0)
        return np.array(self.at)[np.searchsorted(self.newest, keys[seen])] - sent_at[seen]


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


def measure(servers: Servers, measured: System, rate: int, seconds: int, warm_up: int) -> dict[str, object]:
    """Measure quantiles of the latency; returns the fields of a result."""
    servers.empty_database(SHAPE.made, with_ledger=measured is System.SURELANE)
    _make_topic(servers)
    inserts = Inserts.of(count := rate * (warm_up + seconds))
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        system.running(measured, servers, TOPIC) as held,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as source,
    ):
        early = lambda: look.answer(cursor, _EARLY)  # noqa: E731
        look.until(early, held, "the early message", every=LOOK_SECONDS, seconds=LIMIT_SECONDS)
        pacing = source.submit(pace, servers.bootstrap, TOPIC, rate, count)
        sightings = Sightings()
        counted = inserts.ordinals >= rate * warm_up
        start: Snapshot | None = None
        while not pacing.done():
            sightings.look(cursor)
            if start is None and sightings.newest and sightings.newest[-1] >= inserts.keys[counted][0]:
                start = Snapshot.of({**servers.cpu(), **held.cpu()})
            held.must_live()
            time.sleep(LOOK_SECONDS)
        used = Snapshot.of({**servers.cpu(), **held.cpu()}).since(start) if start else {}
        paced = pacing.result()

        def last() -> float | None:
            sightings.look(cursor)
            return look.answer(cursor, _LAST)

        look.until(last, held, "the last message", every=LOOK_SECONDS, seconds=PATIENCE_SECONDS)
        sightings.look(cursor)
        right = look.is_right(servers, SHAPE.made, inserts.expected)
    sent_at = paced.sent_at[inserts.ordinals]
    latencies = sightings.seconds(inserts.keys[counted], sent_at[counted]) * 1000
    return {
        "rate": round((count - rate * warm_up - 1) / (paced.sent_at[-1] - paced.sent_at[rate * warm_up])),
        "samples": len(latencies),
        **quantiles(latencies),
        **used,
        "correct": right,
    }


def quantiles(milliseconds: NDArray[np.float64]) -> dict[str, float]:
    """QUANTILES as fields of a result."""
    return {
        f"{name}_milliseconds": round(float(np.quantile(milliseconds, share)), 1) for name, share in QUANTILES.items()
    }


def _is_insert(change: Change) -> bool:
    return change.op == "c" and change.id != SENTINEL


def _make_topic(servers: Servers) -> None:
    if servers.stack.kafka.has_topic(TOPIC):
        servers.stack.kafka.delete_topic(TOPIC)
    servers.stack.kafka.create_topic(TOPIC)
    early = Change("c", TABLE, int(EARLY[0]), None, EARLY)
    producer = Producer({"bootstrap.servers": servers.bootstrap})
    producer.produce(TOPIC, value_of(early, 0, BEGIN_MICROS), key_of(early), partition=0)
    if producer.flush(LIMIT_SECONDS):
        raise RuntimeError(f"topic {TOPIC} could not be filled")
