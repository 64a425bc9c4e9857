"""How long a change takes from the source's commit to being visible on another connection, at a steady rate.

A change is visible when its epoch is, and an epoch is when its ledger row is: both are in one transaction. So one
small question to the ledger, asked again and again, dates every message.
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

TOPIC = "tools.bench.latency"
MODE = "two-phase"
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
#: seconds of messages that are sent first and not counted: Spark compiles, the JVM warms up
WARM_UP_SECONDS = 10
#: seconds between two looks
LOOK_SECONDS = 0.002
#: seconds for the last message to become visible
PATIENCE_SECONDS = 60.0

_END = f"""
    select coalesce((end_position -> %s ->> '0')::bigint, 0) from {LEDGER_SCHEMA}.ledger
    order by generation desc, epoch desc limit 1
"""


def visible(cursor: Cursor, topic: str) -> int:
    """The next offset after those that are visible."""
    cursor.execute(_END, (topic,))
    row = cursor.fetchone()
    return row[0] if row else 0


@dataclass
class Sightings:
    """When which offset of a topic was first seen to be visible."""

    topic: str
    at: list[float] = field(default_factory=list)
    #: next offset after the visible ones
    end: list[int] = field(default_factory=list)

    def look(self, cursor: Cursor) -> int:
        """Ask once; gives the end seen last."""
        end, now = visible(cursor, self.topic), time.time()
        if not self.end or end > self.end[-1]:
            self.at.append(now)
            self.end.append(end)
        return self.end[-1]

    def seconds(self, paced: Paced) -> NDArray[np.float64]:
        """Latency of each message."""
        ordinals = np.arange(len(paced.sent_at))
        return np.array(self.at)[np.searchsorted(self.end, ordinals, side="right")] - paced.sent_at


def measure(servers: Servers, rate: int, seconds: int, warm_up: int = WARM_UP_SECONDS) -> dict[str, object]:
    """Quantiles of the latency, as the fields of a result."""
    servers.empty_database(SHAPE.made, with_ledger=True)
    servers.empty_topic(TOPIC)
    count = rate * (warm_up + seconds)
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        lane.running(servers, MODE, TOPIC, until_caught_up=False) as held,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as source,
    ):
        until(lambda: asked(cursor, RUNNING), held, "the lane to run", LIMIT_SECONDS)
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
    """As the fields of a result."""
    return {
        f"{name}_milliseconds": round(float(np.quantile(milliseconds, share)), 1) for name, share in QUANTILES.items()
    }


def asked(cursor: Cursor, question: str) -> bool:
    """Whether the answer is yes."""
    cursor.execute(question)
    return cursor.fetchone() == (True,)


def until(condition: Callable[[], bool], held: Lane, reason: str, seconds: float) -> None:
    """Look until it is so; raises LaneFailed when the lane ends or time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        held.must_live()
        if time.monotonic() > deadline:
            raise LaneFailed(f"gave up after {seconds:.0f} s waiting for {reason}:\n{held.tail()}")
        time.sleep(LOOK_SECONDS)
