"""A steady load for long, a sample every few seconds, and a comparison of the table at the end.

Under load is a lane, or a query that counts the lane's changes by window and key.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tools.bench import results
from tools.bench.groups import cell, grouped
from tools.bench.page import Column, Goal, Section, Table, number, sparkline
from tools.bench.plan import Plan
from tools.bench.results import Result, Task
from tools.bench.samples import Sample, growth_goals, second_half, take
from tools.bench.trial import Trial, trial
from tools.peers import lane
from tools.peers.lane import END, PARTS, RUNNING
from tools.peers.systems import System, of_lane
from tools.testbed.pacer import Paced, paced
from tools.testbed.servers import Servers
from tools.testbed.workload import Shape

TOPIC = "bench.soak"
#: the table does not grow, so that growth is the lane's fault
SHAPE = Shape(called="soak", most_rows=100_000)
QUERY, _COUNTS = "query", "soak_counts"
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


#: takes a sample
Add = Callable[[Sample], None]
#: most seconds between two samples; in a short soak there are as many samples
EVERY_SECONDS, SAMPLES = 10.0, 10


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is held, and for how long."""

    system: System
    #: messages a second
    rate: int
    seconds: int

    @property
    def messages(self) -> int:
        return self.rate * self.seconds

    @property
    def every(self) -> float:
        """Seconds between two samples."""
        return min(EVERY_SECONDS, self.seconds / SAMPLES)

    @property
    def is_query(self) -> bool:
        return self.system.name == QUERY

    @property
    def checkpoint(self) -> Path:
        """Of what is measured."""
        path = lane.checkpoint()
        return path.with_name(f"{path.name}.{QUERY}") if self.is_query else path


def tasks(plan: Plan, up: Servers) -> Iterator[Task]:
    for run, _, rate, system in plan.passes(plan.rates):
        load = Load(system=system, rate=rate, seconds=plan.seconds)
        what = {"system": system.name, "messages": load.messages, "rate": rate, "every": load.every, "run": run}
        yield Task(what, partial(measure, up, load, run))


def tasks_of_query(plan: Plan, up: Servers) -> Iterator[Task]:
    """Of a query that counts the lane's changes by window and key."""
    query = of_lane(QUERY, settings={"queries": {QUERY: _QUERY}, **_HEAP}, arguments=("--query", QUERY))
    return tasks(replace(plan, systems=[query]), up)


def measure(servers: Servers, load: Load, run: int) -> dict[str, Any]:
    """Run the load; returns the fields of a result, with all samples, also of one that failed. Each sample is also
    emitted at once."""
    samples: list[Sample] = []

    def add(sample: Sample) -> None:
        what = {"system": load.system.name, "rate": load.rate, "run": run}
        results.emit("soak-sample", {**what, **sample})
        samples.append(sample)

    return dict(results.tried({"samples": samples}, partial(_held, servers, load, add)))


def _held(servers: Servers, load: Load, add: Add) -> dict[str, Any]:
    servers.empty_topic(TOPIC, RETENTION)
    ddl = [*SHAPE.ddl, *([_MAKE] if load.is_query else [])]
    with trial(servers, load.system, TOPIC, ddl) as one, _high(servers) as high:
        one.until(RUNNING, "the lane")
        with paced(servers.bootstrap, TOPIC, load.rate, load.messages, shape=SHAPE) as pacing:
            start = one.snapshot()
            most_lag = _watched(one, load, pacing, high, add)
            used = one.snapshot().since(start)
            expected = pacing.result().expected
        one.until(lambda: _visible(one) >= load.messages, "the last message")
        if not load.is_query:
            ended = one.end(one.reaches(SHAPE.made, expected))
        else:  # it writes what it has when it ends
            ended = one.end(right=True)
            ended["correct"] &= one.answer(f"select sum(n) from {_COUNTS}") == load.messages
    return {**used, "most_lag_messages": most_lag, "epochs": len(one.lane.epochs()), **ended}


def sections(_: Plan, done: Sequence[Result]) -> Iterator[Section]:
    """Of each system what it held, and the goals, of each of its soaks."""
    for soaks in grouped(done, "system"):
        parts: list[str | Table] = []
        goals: list[Goal] = []
        for one in soaks.runs:
            samples = one.get("samples", [])
            parts += [_sentence(one), *(_tables(samples) if samples else [])]
            goals += growth_goals(samples, one["rate"], has_state=one["system"] == QUERY)
        title = f"{soaks.get('system')} under load for long"
        yield Section(f"soak-{soaks.get('system')}", title, parts, goals)


def _sentence(one: Result) -> str:
    table = "counts by ten seconds and 10,000 keys" if one["system"] == QUERY else "of 100,000 rows at most"
    return (
        f"{one['messages']:,} messages at {one['rate']:,} messages/s; a look every {one['every']:g} s, the lag every "
        f"half second. The table, {table}: {results.state(one)}; prepared transactions left: "
        f"{one.get('prepared_left', 'not known')}."
    )


def _tables(samples: Sequence[Sample]) -> list[Table]:
    held = {"first": samples[0], "middle": second_half(samples)[0], "last": samples[-1]}
    memory = [(part, [one["pss"][part] for one in samples]) for part in PARTS]
    columns: Sequence[Column] = (
        ("process", lambda one: one[0]),
        ("over time, from 0", lambda one: sparkline(one[1])),
        *((head, lambda one, of=of: number(of(one[1]))) for head, of in (("least MB", min), ("most MB", max))),
    )
    return [
        Table.of("What it held", _COLUMNS, [{"name": name, **one} for name, one in held.items()]),
        Table.of("Memory (PSS)", columns, memory),
    ]


def _visible(one: Trial) -> int:
    return int(one.answer(END, TOPIC) or 0)


def _watched(one: Trial, load: Load, pacing: Future[Paced], high: Callable[[], int], add: Add) -> int:
    """Sample until all messages are sent; returns the largest lag, in messages."""
    table = _COUNTS if load.is_query else _SOURCE
    begin = time.time()
    lag, most, due = 0, 0, begin + load.every
    while not pacing.done():
        lag = max(lag, high() - _visible(one))
        one.held.must_live()
        if time.time() >= due:
            add(take(one, table, load.checkpoint, begin, lag))
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
