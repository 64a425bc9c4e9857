"""A steady load for long, a sample every few seconds, and a comparison of the table at the end.

Under load is a lane, or a query that counts the lane's changes by window and key.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tools.bench import chart, results
from tools.bench.page import Column, Picture, Section, Table, number
from tools.bench.report import Measure
from tools.bench.results import Result, Task
from tools.bench.samples import Sample, growth_goals, second_half, take
from tools.bench.summary import cell
from tools.bench.trial import Trial, trial
from tools.peers import lane
from tools.peers.lane import END, PARTS, RUNNING, TWO_PHASE
from tools.peers.systems import LANES, System, of_lane
from tools.testbed.pacer import Paced, paced
from tools.testbed.servers import Servers
from tools.testbed.workload import Shape

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
_KAFKA_SECONDS = 10.0
_COLUMNS: Sequence[Column] = (
    ("sample", cell("name")),
    ("minute", lambda one: number(one["seconds"] / 60, 1)),
    *((f"{part} MB", lambda one, part=part: f"{one['pss'][part]:.0f}") for part in PARTS),
    *((name, lambda one, name=name: str(sum(one[name].values()))) for name in ("threads", "files")),
    ("checkpoint files", lambda one: str(one["checkpoint_files"])),
    ("ledger rows", lambda one: f"{one['ledger_rows']:,} ({one['ledger_megabytes']:.1f} MB)"),
    *(("guard MB", cell("guard_megabytes", digits=1)), ("table MB", cell("table_megabytes"))),
)


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is held, and for how long."""

    minutes: float
    #: messages a second
    rate: int
    #: seconds between two samples
    every: float
    #: a query instead of a lane
    query: bool = False

    @property
    def messages(self) -> int:
        return round(self.rate * self.minutes * 60)

    @property
    def system(self) -> System:
        if not self.query:
            return LANES[TWO_PHASE]
        return of_lane(QUERY, settings={"queries": {QUERY: _QUERY}, **_HEAP}, arguments=("--query", QUERY))

    @property
    def checkpoint(self) -> Path:
        """Of what is measured."""
        path = lane.checkpoint()
        return path.with_name(f"{path.name}.{QUERY}") if self.query else path


def of_soak(load: Load) -> Measure:
    """Of bench-soak."""
    samples: list[Sample] = []
    what = {name: getattr(load, name) for name in ("messages", "rate", "every", "query")}

    def tasks(up: Servers, _: int) -> Sequence[Task]:
        return [Task("soak", what, lambda: measure(up, load, samples))]

    return Measure("soak", tasks, lambda done: [section(done[0], samples)])


def measure(servers: Servers, load: Load, samples: list[Sample]) -> dict[str, Any]:
    """Run the load; returns the fields of a result. Each sample is added and emitted at once."""
    servers.empty_topic(TOPIC, RETENTION)
    ddl = [*SHAPE.ddl, *([_MAKE] if load.query else [])]
    with trial(servers, load.system, TOPIC, ddl) as one, _high(servers) as high:
        one.until(RUNNING, "the lane")
        with paced(servers.bootstrap, TOPIC, load.rate, load.messages, shape=SHAPE) as pacing:
            start = one.snapshot()
            most_lag = _watched(one, load, pacing, high, samples)
            used = one.snapshot().since(start)
            expected = pacing.result().expected
        one.until(lambda: _visible(one) >= load.messages, "the last message")
        if not load.query:
            ended = one.end(one.reaches(SHAPE.made, expected))
        else:  # it writes what it has when it ends
            ended = one.end(right=True)
            ended["correct"] &= one.answer(f"select sum(n) from {_COUNTS}") == load.messages
    return {**used, "most_lag_messages": most_lag, "epochs": len(one.lane.epochs()), **ended}


def section(result: Result, samples: Sequence[Sample]) -> Section:
    """What was held, and the goals."""
    query = bool(result.get("query"))
    key, title, table = (
        ("soak-query", "A query under load for long", "counts by ten seconds and 10,000 keys")
        if query
        else ("soak", "Under load for long", "of 100,000 rows at most")
    )
    text = (
        f"{result['messages']:,} messages at {result['rate']:,} messages/s, mode two-phase; a look every "
        f"{result['every']:g} s, the lag every half second. The table, {table}: "
        f"{'right' if result['correct'] else 'WRONG'}; prepared transactions left: "
        f"{result.get('prepared_left', 'not known')}. {result.get('error', '')}".rstrip()
    )
    drawn: list[Table | Picture] = []
    if samples:
        held = {"first": samples[0], "middle": second_half(samples)[0], "last": samples[-1]}
        minutes = [one["seconds"] / 60 for one in samples]
        lines = chart.lines(
            "MB by process (PSS)", minutes, {part: [one["pss"][part] for one in samples] for part in PARTS}
        )
        drawn.append(Table.of("What it held", _COLUMNS, [{"name": name, **one} for name, one in held.items()]))
        drawn.append(Picture(f"{key}.svg", "memory by process", lines))
    goals = growth_goals(samples, result["rate"], has_state=query)
    return Section(key, title, [text, *drawn], goals)


def _visible(one: Trial) -> int:
    return int(one.answer(END, TOPIC) or 0)


def _watched(one: Trial, load: Load, pacing: Future[Paced], high: Callable[[], int], samples: list[Sample]) -> int:
    """Sample until all messages are sent; returns the largest lag, in messages."""
    table = _COUNTS if load.query else _SOURCE
    begin = time.time()
    lag, most, due = 0, 0, begin + load.every
    while not pacing.done():
        lag = max(lag, high() - _visible(one))
        one.held.must_live()
        if time.time() >= due:
            sample = take(one, table, load.checkpoint, begin, lag)
            results.emit("soak-sample", sample)
            samples.append(sample)
            most, lag, due = max(most, lag), 0, due + load.every
        time.sleep(LOOK_SECONDS)
    return max(most, lag)


@contextmanager
def _high(servers: Servers) -> Iterator[Callable[[], int]]:
    """A function that gets the topic's end offset from the broker."""
    consumer = Consumer({"bootstrap.servers": servers.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    try:
        yield lambda: consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=_KAFKA_SECONDS)[1]
    finally:
        consumer.close()
