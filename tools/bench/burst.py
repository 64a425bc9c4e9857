"""Time from the checkpoint entry of a burst's last epoch until the epoch is visible; no epoch follows it.

burst sent ... epochs ... Spark writes commits/N of the last one ........ first poll that sees it
                                    |------------- measured -----------------|
"""

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, Message, Producer

from tools.bench import lane
from tools.bench.drain import LIMIT_SECONDS, RUNNING
from tools.bench.goals import Goal
from tools.bench.lane import Lane, LaneFailed
from tools.bench.latency import MODE, PATIENCE_SECONDS, is_true, until, visible
from tools.bench.machine import Snapshot
from tools.bench.servers import LEDGER_SCHEMA, Cursor, Servers
from tools.bench.shape import Shape
from tools.bench.tables import BEGIN_MICROS
from tools.bench.workload import Workload, key_of, value_of

TOPIC = "bench.burst"
SHAPE = Shape(called="burst", most_rows=100_000)
#: milliseconds, in the worst burst
LIMIT_MILLISECONDS = 300.0
#: bursts that are sent first and not counted, while Spark compiles and the JVM warms up
WARM_UP_BURSTS = 5
#: seconds without messages before each burst
IDLE_SECONDS = 0.5
_NEWEST = f"select epoch from {LEDGER_SCHEMA}.ledger order by generation desc, epoch desc limit 1"
_PRODUCER = {"linger.ms": 5, "acks": 1}


def measure(servers: Servers, size: int, bursts: int) -> dict[str, object]:
    """Measure the bursts; returns the fields of a result."""
    servers.empty_database(SHAPE.made, with_ledger=True)
    servers.empty_topic(TOPIC)
    workload = Workload(SHAPE, size * (WARM_UP_BURSTS + bursts))
    sender = Sender(servers.bootstrap, workload, size)
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        lane.running(servers, MODE, TOPIC, until_caught_up=False) as held,
    ):
        until(lambda: is_true(cursor, RUNNING), held, "the lane to run", LIMIT_SECONDS)
        for _ in range(WARM_UP_BURSTS):
            _one(sender, cursor, held)
        start = Snapshot.of({**servers.cpu(), **held.cpu()})
        found = np.array([_one(sender, cursor, held) for _ in range(bursts)]) * 1000
        used = Snapshot.of({**servers.cpu(), **held.cpu()}).since(start)
        status = held.stop()
    prepared = servers.prepared()
    right = servers.found(SHAPE.made) == workload.expected()
    hidden, whole = found.T
    return {
        "hidden_milliseconds": _quantiles(hidden),
        "whole_milliseconds": _quantiles(whole),
        "each_hidden_milliseconds": [round(float(one), 1) for one in hidden],
        **used,
        "prepared_left": prepared,
        "exit_status": status,
        "correct": right and not prepared and not status,
    }


def goals(result: dict[str, Any]) -> list[Goal]:
    found = result["hidden_milliseconds"]["max"] if result["correct"] else None
    what = "last epoch of a burst visible after its checkpoint entry, worst"
    return [Goal(what=what, unit="ms", limit=LIMIT_MILLISECONDS, found=found)]


class Sender:
    """Sends the workload burst by burst."""

    def __init__(self, bootstrap: str, workload: Workload, size: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, **_PRODUCER})
        self._changes = enumerate(workload)
        self._size = size
        self._failed: list[KafkaError] = []
        self._ready: list[tuple[str, str]] = []
        #: offset after the last sent message
        self.end = 0

    def prepare(self) -> None:
        """Generate the messages of the next burst, so that sending takes milliseconds."""
        chosen: Iterator[Any] = islice(self._changes, self._size)
        self._ready = [(key_of(one), value_of(one, n, BEGIN_MICROS + n * 1000)) for n, one in chosen]

    def send(self) -> None:
        """Send the prepared burst; delivery is asynchronous, see `check`."""
        for key, value in self._ready:
            self._producer.produce(TOPIC, value, key, partition=0, on_delivery=self._delivered)
        self.end += len(self._ready)

    def check(self) -> None:
        """Flush; raises RuntimeError if a message was not delivered."""
        if self._producer.flush(PATIENCE_SECONDS) or self._failed:
            raise RuntimeError(f"topic {TOPIC} could not be filled: {self._failed[:3]}")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        self._failed.extend([error] if error else [])


def _one(sender: Sender, cursor: Cursor, held: Lane) -> tuple[float, float]:
    """Send a burst; returns seconds until its last epoch is visible: since the checkpoint entry, and since the send."""
    sender.prepare()
    time.sleep(IDLE_SECONDS)
    begin = time.time()
    sender.send()
    until(lambda: visible(cursor, TOPIC) >= sender.end, held, "a burst", LIMIT_SECONDS)
    seen = time.time()
    sender.check()
    cursor.execute(_NEWEST)
    row = cursor.fetchone()
    assert row is not None, "an epoch was seen"
    return seen - _entry_at(row[0]), seen - begin


def _entry_at(epoch: int) -> float:
    """When `commits/N` of this epoch was written, in seconds since 1970."""
    found = list(lane.checkpoint().rglob(f"commits/{epoch}"))
    if len(found) != 1:
        raise LaneFailed(f"epoch {epoch} has {len(found)} entries in the checkpoint")
    return found[0].stat().st_mtime_ns / 1e9


def _quantiles(milliseconds: "np.ndarray[Any, np.dtype[np.float64]]") -> dict[str, float]:
    shares = {"p50": 0.5, "p90": 0.9, "max": 1.0}
    return {name: round(float(np.quantile(milliseconds, share)), 1) for name, share in shares.items()}
