"""Time from the checkpoint entry of a burst's last epoch until the epoch is visible; no epoch follows it.

burst sent ... epochs ... Spark writes commits/N of the last one ........ first poll that sees it
                                    |------------- measured -----------------|
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, Message, Producer

from tools.bench import lane, report
from tools.bench.child import SystemFailed, answer, until
from tools.bench.drain import LIMIT_SECONDS
from tools.bench.goals import Goal
from tools.bench.lane import END, RUNNING, Lane
from tools.bench.latency import LOOK_SECONDS, PATIENCE_SECONDS
from tools.bench.machine import Snapshot
from tools.bench.page import Table
from tools.bench.report import Measure
from tools.bench.results import state
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
_COLUMNS = (
    *("run", "after the entry: p50 ms", "p90", "worst"),
    *("first message to last visible: p50 ms", "worst", "table"),
)


def run(wanted: report.Wanted, size: int, bursts: int) -> bool:
    """Run bench-burst."""
    what = {"messages": size * bursts, "size": size, "bursts": bursts}
    measured = Measure(
        key="burst",
        title="The end of a burst",
        cases=lambda up: [(what, partial(measure, up, size, bursts))],
        parts=lambda done: [Table(title="Bursts", columns=_COLUMNS, rows=[_row(one) for one in done])],
        goals=lambda done: [_goal(result) for result in done],
    )
    return report.run(wanted, measured)


def measure(servers: Servers, size: int, bursts: int) -> dict[str, Any]:
    """Measure the bursts; returns the fields of a result."""
    servers.empty_database(SHAPE.made, with_ledger=True)
    servers.empty_topic(TOPIC)
    workload = Workload(SHAPE, size * (WARM_UP_BURSTS + bursts))
    sender = Sender(servers.bootstrap, workload, size)
    with servers.connect() as probe, probe.cursor() as cursor, lane.running(servers, TOPIC) as held:
        until(lambda: answer(cursor, RUNNING), held, "the lane", every=LOOK_SECONDS, seconds=LIMIT_SECONDS)
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


def _goal(result: Mapping[str, Any]) -> Goal:
    found = result["hidden_milliseconds"]["max"] if result["correct"] else None
    what = "last epoch of a burst visible after its checkpoint entry, worst"
    return Goal(what=what, unit="ms", limit=LIMIT_MILLISECONDS, found=found)


def _row(one: Mapping[str, Any]) -> Sequence[str]:
    if not one["correct"]:
        return (str(one["run"]), "", "", "", "", "", state(one))
    hidden, whole = one["hidden_milliseconds"], one["whole_milliseconds"]
    figures = [*(hidden[name] for name in ("p50", "p90", "max")), *(whole[name] for name in ("p50", "max"))]
    return (str(one["run"]), *(f"{figure:,.0f}" for figure in figures), state(one))


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
    is_seen = lambda: (answer(cursor, END, TOPIC) or 0) >= sender.end  # noqa: E731
    until(is_seen, held, "a burst", every=LOOK_SECONDS, seconds=LIMIT_SECONDS)
    seen = time.time()
    sender.check()
    return seen - _entry_at(int(answer(cursor, _NEWEST) or 0)), seen - begin


def _entry_at(epoch: int) -> float:
    """When `commits/N` of this epoch was written, in seconds since 1970."""
    found = list(lane.checkpoint().rglob(f"commits/{epoch}"))
    if len(found) != 1:
        raise SystemFailed(f"epoch {epoch} has {len(found)} entries in the checkpoint")
    return found[0].stat().st_mtime_ns / 1e9


def _quantiles(milliseconds: "np.ndarray[Any, np.dtype[np.float64]]") -> dict[str, float]:
    shares = {"p50": 0.5, "p90": 0.9, "max": 1.0}
    return {name: round(float(np.quantile(milliseconds, share)), 1) for name, share in shares.items()}
