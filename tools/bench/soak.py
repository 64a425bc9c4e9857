"""A steady load for long, a sample every few seconds, and a comparison of the table at the end.

Under load is a lane, or a query that counts the lane's changes by window and key.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tools.bench import chart, growth, lane, report, results
from tools.bench.child import answer, until
from tools.bench.drain import LIMIT_SECONDS
from tools.bench.goals import Goal
from tools.bench.lane import END, PARTS, RUNNING, Lane
from tools.bench.latency import paced
from tools.bench.machine import Snapshot
from tools.bench.pacer import Paced
from tools.bench.page import Section, Table
from tools.bench.results import Task
from tools.bench.samples import Sample, take
from tools.bench.servers import Cursor, Servers
from tools.bench.shape import Shape
from tools.bench.terminal import say

TOPIC = "bench.soak"
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
    "state": {"memory_bytes": 64 << 20},
}
_MAKE = f"create table {_COUNTS} (began timestamptz, part bigint, n bigint, primary key (began, part))"
#: with the state's: full before the second half, which is judged. Neither gives anything back before it is full
_HEAP = {"spark": {"conf": {"spark.driver.memory": "512m"}}}
#: seconds between two measurements of the lag
LOOK_SECONDS = 0.5
#: topic settings: the broker must not keep all messages of a day
RETENTION = {"retention_bytes": str(1 << 29), "segment_bytes": str(1 << 26)}
#: samples between two lines of progress
PROGRESS_EVERY = 6
_KAFKA_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Wanted(report.Wanted):
    """Options of `./run bench-soak`."""

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


def run(wanted: Wanted) -> bool:
    """Measure; returns False if the lane failed or left a wrong table. A missed goal is only reported."""
    samples: list[Sample] = []

    def sampled(one: Sample) -> None:
        samples.append(one)
        results.emit(results.stamped("soak-sample", {**one.as_result()}))

    what = {name: getattr(wanted, name) for name in ("messages", "rate", "every", "query")}
    tasks = lambda up: [Task(name="soak", what=what, measure=lambda: measure(up, wanted, sampled))]  # noqa: E731
    (result,) = report.measured(wanted, tasks)
    judged = growth.goals(samples, wanted.rate, has_state=wanted.query)
    if wanted.report and samples:
        wanted.report.parent.mkdir(parents=True, exist_ok=True)
        (wanted.report.parent / f"{_key(wanted.query)}.svg").write_text(picture(samples))
    return report.finish(wanted, "soak", [result], [section(result, samples, judged)], judged)


def measure(servers: Servers, wanted: Wanted, sampled: Callable[[Sample], None]) -> dict[str, Any]:
    """Run the load; returns the fields of a result. `sampled` is called with each sample at once."""
    servers.empty_database(SHAPE.made, with_ledger=True)
    servers.empty_topic(TOPIC, RETENTION)
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        _running(servers, cursor, wanted) as held,
        _high(servers) as high,
    ):
        until(lambda: answer(cursor, RUNNING), held, "the lane", every=0.01, seconds=LIMIT_SECONDS)
        with paced(servers.bootstrap, TOPIC, wanted.rate, wanted.messages, shape=SHAPE) as pacing:
            start = Snapshot.of({**servers.cpu(), **held.cpu()})
            most_lag = _watched(held, cursor, high, wanted, pacing, sampled)
            used = Snapshot.of({**servers.cpu(), **held.cpu()}).since(start)
            expected = pacing.result().expected
        is_done = lambda: _visible(cursor) >= wanted.messages  # noqa: E731
        until(is_done, held, "the last message", every=0.01, seconds=LIMIT_SECONDS)
        status = held.stop()
        counted = answer(cursor, f"select sum(n) from {_COUNTS}") if wanted.query else None
    right = counted == wanted.messages if wanted.query else servers.found(SHAPE.made) == expected
    prepared = servers.prepared()
    return {
        **used,
        "most_lag_messages": most_lag,
        "epochs": len(held.epochs()),
        "prepared_left": prepared,
        "exit_status": status,
        "correct": right and not prepared and not status,
    }


def section(result: Mapping[str, Any], samples: Sequence[Sample], judged: Sequence[Goal]) -> Section:
    key = _key(bool(result.get("query")))
    title, table = (
        ("A query under load for long", "counts by ten seconds and 10,000 keys")
        if result.get("query")
        else ("Under load for long", "of 100,000 rows at most")
    )
    state = "right" if result["correct"] else "WRONG"
    text = (
        f"{result['messages']:,} messages at {result['rate']:,} messages/s, mode two-phase; a look every "
        f"{result['every']:g} s, the lag every half second. The table, {table}: {state}; prepared transactions left: "
        f"{result.get('prepared_left', 'not known')}. {result.get('error', '')}".rstrip()
    )
    drawn = [_held(samples), f"![memory by process]({key}.svg)"] if samples else []
    parts = [*report.with_goals([text], judged), *drawn]
    return Section(key=key, title=title, parts=parts)


def picture(samples: Sequence[Sample]) -> str:
    minutes = [one.seconds / 60 for one in samples]
    return chart.lines("MB by process (PSS)", minutes, {part: [one.pss[part] for one in samples] for part in PARTS})


def _key(query: bool) -> str:
    return "soak-query" if query else "soak"


def _held(samples: Sequence[Sample]) -> Table:
    places = {"first": samples[0], "middle": growth.second_half(samples)[0], "last": samples[-1]}
    rows = [
        (
            *(name, f"{one.seconds / 60:.1f}", *(f"{one.pss[part]:.0f}" for part in PARTS)),
            *(f"{sum(one.threads.values())}", f"{sum(one.files.values())}", f"{one.checkpoint_files}"),
            f"{one.ledger_rows:,} ({one.ledger_megabytes:.1f} MB)",
            *(f"{one.guard_megabytes:.1f}", f"{one.table_megabytes:.0f}"),
        )
        for name, one in places.items()
    ]
    columns = (
        *("sample", "minute", *(f"{part} MB" for part in PARTS), "threads", "files"),
        *("checkpoint files", "ledger rows", "guard MB", "table MB"),
    )
    return Table(title="What it held", columns=columns, rows=rows)


def _running(servers: Servers, cursor: Cursor, wanted: Wanted) -> AbstractContextManager[Lane]:
    if not wanted.query:
        return lane.running(servers, TOPIC)
    cursor.execute(_MAKE)
    return lane.running(servers, TOPIC, settings={"queries": {QUERY: _QUERY}, **_HEAP}, arguments=("--query", QUERY))


def _visible(cursor: Cursor) -> int:
    return int(answer(cursor, END, TOPIC) or 0)


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
        lag = max(lag, high() - _visible(cursor))
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
