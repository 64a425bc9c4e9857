"""Measures the latency from the source's commit until a change is visible on another connection, at a steady rate.

A change becomes visible with its epoch's ledger row: both are in one transaction. So one small query to the ledger,
polled, gives the time of every message.
"""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from psycopg2.extensions import cursor as Cursor

from tools.bench import lane
from tools.bench.drain import LIMIT_SECONDS, RUNNING
from tools.bench.epochs import mean_steps
from tools.bench.lane import Lane, LaneFailed
from tools.bench.machine import Snapshot
from tools.bench.pacer import SHAPE, Paced, pace
from tools.bench.servers import LEDGER_SCHEMA, Servers

TOPIC = "bench.latency"
MODE = "two-phase"
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
#: seconds of load before the measurement, while Spark compiles and the JVM warms up
WARM_UP_SECONDS = 10
#: seconds between two polls
LOOK_SECONDS = 0.002
#: seconds until the last message must be visible
PATIENCE_SECONDS = 60.0

_END = f"""
    select coalesce((end_position -> %s ->> '0')::bigint, 0) from {LEDGER_SCHEMA}.ledger
    order by generation desc, epoch desc limit 1
"""


def visible(cursor: Cursor, topic: str) -> int:
    """The offset after the last visible message."""
    cursor.execute(_END, (topic,))
    row = cursor.fetchone()
    return row[0] if row else 0


@dataclass
class Sightings:
    """When each offset of a topic was first seen to be visible."""

    topic: str
    at: list[float] = field(default_factory=list)
    #: offset after the last visible message, at the time in `at`
    end: list[int] = field(default_factory=list)

    def look(self, cursor: Cursor) -> int:
        """Poll once; returns the offset after the last visible message."""
        end, now = visible(cursor, self.topic), time.time()
        if not self.end or end > self.end[-1]:
            self.at.append(now)
            self.end.append(end)
        return self.end[-1]

    def seconds(self, paced: Paced) -> NDArray[np.float64]:
        """Latency of each message, in the order of offsets."""
        ordinals = np.arange(len(paced.sent_at))
        return np.array(self.at)[np.searchsorted(self.end, ordinals, side="right")] - paced.sent_at


def measure(servers: Servers, rate: int, seconds: int, warm_up: int = WARM_UP_SECONDS) -> dict[str, object]:
    """Measure quantiles of the latency; returns the fields of a result."""
    servers.empty_database(SHAPE.made, with_ledger=True)
    servers.empty_topic(TOPIC)
    count = rate * (warm_up + seconds)
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        lane.running(servers, MODE, TOPIC, until_caught_up=False) as held,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as source,
    ):
        until(lambda: is_true(cursor, RUNNING), held, "the lane to run", LIMIT_SECONDS)
        pacing = source.submit(pace, servers.bootstrap, TOPIC, rate, count)
        sightings = Sightings(TOPIC)
        start: Snapshot | None = None
        while not pacing.done():
            end = sightings.look(cursor)
            if start is None and end >= rate * warm_up:
                start = Snapshot.of({**servers.cpu(), **held.cpu()})
            held.must_live()
            time.sleep(LOOK_SECONDS)
        used = Snapshot.of({**servers.cpu(), **held.cpu()}).since(start) if start else {}
        paced = pacing.result()
        until(lambda: sightings.look(cursor) >= count, held, "the last message", PATIENCE_SECONDS)
        peaks = held.peaks()
        held.stop()
    latencies = sightings.seconds(paced)[rate * warm_up :] * 1000
    epochs = [epoch for epoch in held.epochs() if epoch.at >= paced.sent_at[rate * warm_up]]
    return {
        "rate": round((len(latencies) - 1) / (paced.sent_at[-1] - paced.sent_at[rate * warm_up])),
        **quantiles(latencies),
        **used,
        "peak_megabytes": peaks,
        "epochs": len(epochs),
        "step_milliseconds": mean_steps(epochs),
        "correct": servers.found(SHAPE.made) == paced.expected,
    }


def quantiles(milliseconds: NDArray[np.float64]) -> dict[str, float]:
    """QUANTILES as fields of a result."""
    return {
        f"{name}_milliseconds": round(float(np.quantile(milliseconds, share)), 1) for name, share in QUANTILES.items()
    }


def is_true(cursor: Cursor, question: str) -> bool:
    """Whether the query returns true."""
    cursor.execute(question)
    return cursor.fetchone() == (True,)


def until(condition: Callable[[], bool], held: Lane, reason: str, seconds: float) -> None:
    """Poll `condition` until it is true; raises LaneFailed if the lane ends, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        held.must_live()
        if time.monotonic() > deadline:
            raise LaneFailed(f"gave up after {seconds:.0f} s waiting for {reason}:\n{held.tail()}")
        time.sleep(LOOK_SECONDS)
