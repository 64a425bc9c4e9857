"""The run: a steady load, a sample every few seconds, and a comparison of the table at the end.

Under load is a lane, or a query that counts the lane's changes by window and key.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tools.bench import lane
from tools.bench.drain import LIMIT_SECONDS, RUNNING
from tools.bench.lane import Lane
from tools.bench.latency import is_true, until, visible
from tools.bench.machine import Snapshot
from tools.bench.pacer import Paced, pace
from tools.bench.peers import look
from tools.bench.report import say
from tools.bench.servers import Cursor, Servers
from tools.bench.shape import Shape
from tools.bench.soak.sample import Sample, take

TOPIC = "bench.soak"
MODE = "two-phase"
#: the table does not grow, so that growth is the lane's fault
SHAPE = Shape(called="soak", most_rows=100_000)
QUERY, _COUNTS = "counts", "soak_counts"
_SOURCE, _ID = SHAPE.made[0].name, "coalesce(after.id, before.id)"
#: what its state has at a time stays the same: the watermark drops windows as new ones begin
_QUERY: Mapping[str, Any] = {
    "changes": {f"public.{_SOURCE}": {"watermark": "10 seconds"}},
    "sql": f"select window.start as began, {_ID} % 10000 as part, count(*) as n from changes_of_{_SOURCE}"
    f" group by window(ts, '10 seconds'), {_ID} % 10000",
    "table": f"public.{_COUNTS}",
    "trigger": "2 seconds",
}
_MAKE = f"create table {_COUNTS} (began timestamptz, part bigint, n bigint, primary key (began, part))"
#: seconds between two measurements of the lag
LOOK_SECONDS = 0.5
#: topic settings: the broker must not keep all messages of a day
RETENTION = {"retention_bytes": str(1 << 29), "segment_bytes": str(1 << 26)}
#: samples between two lines of progress
PROGRESS_EVERY = 6
_KAFKA_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options of `./run bench-soak`."""

    stack: str
    minutes: float
    #: messages a second
    rate: int
    #: seconds between two samples
    every: float
    #: a query instead of a lane
    query: bool = False

    @property
    def checkpoint(self) -> Path:
        """Of what is measured."""
        path = lane.checkpoint()
        return path.with_name(f"{path.name}.{QUERY}") if self.query else path

    @property
    def table(self) -> str:
        """That it writes."""
        return _COUNTS if self.query else SHAPE.made[0].name

    @property
    def messages(self) -> int:
        return round(self.rate * self.minutes * 60)


def measure(servers: Servers, wanted: Wanted, sampled: Callable[[Sample], None]) -> dict[str, object]:
    """Run the load; returns the fields of a result. `sampled` is called with each sample at once."""
    servers.empty_database(SHAPE.made, with_ledger=True)
    servers.empty_topic(TOPIC, RETENTION)
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        _running(servers, cursor, wanted) as held,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as source,
        _high(servers) as high,
    ):
        until(lambda: is_true(cursor, RUNNING), held, "the lane to run", LIMIT_SECONDS)
        pacing = source.submit(pace, servers.bootstrap, TOPIC, wanted.rate, wanted.messages, SHAPE)
        start = Snapshot.of({**servers.cpu(), **held.cpu()})
        most_lag = _watched(held, cursor, high, wanted, pacing, sampled)
        used = Snapshot.of({**servers.cpu(), **held.cpu()}).since(start)
        paced = pacing.result()
        until(lambda: visible(cursor, TOPIC) >= wanted.messages, held, "the last message", LIMIT_SECONDS)
        status = held.stop()
    right = _counted(servers) == wanted.messages if wanted.query else servers.found(SHAPE.made) == paced.expected
    prepared = servers.prepared()
    return {
        **used,
        "most_lag_messages": most_lag,
        "epochs": len(held.epochs()),
        "prepared_left": prepared,
        "exit_status": status,
        "correct": right and not prepared and not status,
    }


def _running(servers: Servers, cursor: Cursor, wanted: Wanted) -> AbstractContextManager[Lane]:
    if not wanted.query:
        return lane.running(servers, MODE, TOPIC, until_caught_up=False)
    cursor.execute(_MAKE)
    settings, arguments = {"queries": {QUERY: _QUERY}}, ("--query", QUERY)
    return lane.running(servers, MODE, TOPIC, until_caught_up=False, settings=settings, arguments=arguments)


def _counted(servers: Servers) -> object:
    """Messages that the query has counted."""
    with servers.connect() as connection, connection.cursor() as cursor:
        return look.answer(cursor, f"select sum(n) from {_COUNTS}")


def _watched(
    held: Lane,
    cursor: Cursor,
    high: Callable[[], int],
    wanted: Wanted,
    pacing: "Future[Paced]",
    sampled: Callable[[Sample], None],
) -> int:
    """Sample until all messages are sent; returns the largest lag, in messages."""
    begin = time.time()
    lag = most = number = 0
    due = begin + wanted.every
    while not pacing.done():
        lag = max(lag, high() - visible(cursor, TOPIC))
        held.must_live()
        if time.time() >= due:
            sample = take(held, cursor, wanted.table, wanted.checkpoint, begin, lag)
            sampled(sample)
            if number % PROGRESS_EVERY == 0:
                _report(sample)
            most, lag, number, due = max(most, lag), 0, number + 1, due + wanted.every
        time.sleep(LOOK_SECONDS)
    return max(most, lag)


def _report(sample: Sample) -> None:
    memory = ", ".join(f"{part} {size:.0f}" for part, size in sample.pss.items())
    say(
        f"{sample.seconds / 60:.1f} min: MB {memory}; threads {sum(sample.threads.values())}, files "
        f"{sum(sample.files.values())}, lag {sample.lag_messages}, ledger {sample.ledger_rows}"
    )


@contextmanager
def _high(servers: Servers) -> Iterator[Callable[[], int]]:
    """A function that gets the topic's end offset from the broker."""
    consumer = Consumer({"bootstrap.servers": servers.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    try:
        yield lambda: consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=_KAFKA_SECONDS)[1]
    finally:
        consumer.close()
