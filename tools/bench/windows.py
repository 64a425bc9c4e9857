"""Measures a windowed count: JSON from Kafka, counted by minute and key with RocksDB, into a table of Postgres.

Each window is written once, when it has ended: the watermark is a second behind the newest event time. The last message
ends all windows but its own, so the result of all others is known. Seconds are from process start to the last row.
"""

import datetime
import hashlib
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from tools.bench.groups import LOAD, STATE, SYSTEM, cell, grouped, median_of, of_field, spread_of
from tools.bench.page import Goal, Section, Table
from tools.bench.plan import Plan
from tools.bench.results import Result, Task, cpu_used, say
from tools.bench.trial import trial
from tools.peers.systems import System, of_flink, of_lane
from tools.testbed.servers import Servers
from tools.testbed.topic import filling

KEYS = 100_000
#: event time of all messages together
MINUTES = 10
#: memory of RocksDB, for each system
STATE_MEGABYTES = 256
LIMIT_SECONDS = 240.0
LOOK_SECONDS = 0.25
SEED = 42
_BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
#: key and event time of the last message
_LAST = (-1, (MINUTES + 10) * 60_000)
_TABLE = "counts"
_DDL = f"create table {_TABLE} (minute timestamp, key bigint, n bigint, primary key (minute, key))"
_QUERY = "by_minute"
_SQL = """
    select cast(window.start as timestamp_ntz) as minute, key, count(*) as n from events
    group by window(at, '1 minute'), key
"""
_SECONDS = of_field("seconds")
_COLUMNS = (
    *(("messages", cell("messages")), SYSTEM, ("rows", cell("rows"))),
    *(("seconds", median_of(_SECONDS, 1)), ("from - to", spread_of(_SECONDS, 1))),
    ("CPU s", median_of(lambda one: sum(cpu_used(one).values()), 1)),
    *(("of Postgres", median_of(of_field("cpu_seconds", "postgres"), 1)), STATE, LOAD),
)


def _query(topic: str) -> Mapping[str, Any]:
    watermark = {"column": "at", "delay": "1 seconds"}
    query = {
        "topics": {"events": {"topic": topic, "columns": "key bigint, at timestamp", "watermark": watermark}},
        "sql": _SQL,
        "table": f"public.{_TABLE}",
        "output": "append",
        "state": {"memory_bytes": STATE_MEGABYTES << 20},
    }
    # Spark does not count the keys, as Flink does not; it would look each one up before it is written
    counts = {"spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false"}
    return {"queries": {_QUERY: query}, "spark": {"conf": counts}}


_JOB = {"job": "WindowJob", "table": _TABLE, "state_megabytes": STATE_MEGABYTES}
SURELANE, FLINK, FLINK_PARALLEL = "surelane", "flink", "flink, parallelism 2"


def systems(topic: str) -> Sequence[System]:
    """What is compared, with this topic."""
    return [
        of_lane(SURELANE, settings=_query(topic), arguments=("--query", _QUERY)),
        of_flink(FLINK, **_JOB),
        of_flink(FLINK_PARALLEL, **_JOB, parallelism=2),
    ]


class Events(NamedTuple):
    """A topic of one partition, and what its result is: the number of rows, and their hash by minute and key."""

    topic: str
    messages: int
    rows: int
    sha256: str


def fetch() -> None:
    for system in systems(""):
        system.fetch()


def tasks(plan: Plan, up: Servers) -> Iterator[Task]:
    for messages in plan.messages:
        topic = f"bench.windows.{messages}"
        say(f"{messages:,} messages over {KEYS:,} keys: making them")
        made = prepared(up, topic, messages)
        for run, _, _, system in replace(plan, systems=systems(topic)).passes([made]):
            what = {"system": system.name, "messages": messages, "rows": made.rows, "run": run}
            yield Task(what, partial(measure, up, made, system))


def prepared(servers: Servers, topic: str, messages: int) -> Events:
    """The topic, made anew."""
    counts = Counter[tuple[int, int]]()
    servers.empty_topic(topic)
    with filling(servers.bootstrap, topic) as send:
        for key, milliseconds in _events(messages):
            at = (_BEGIN + datetime.timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")
            send(json.dumps({"key": key, "at": at.replace("+00:00", "Z")}), None)
            counts[milliseconds // 60_000, key] += 1
    del counts[_LAST[1] // 60_000, _LAST[0]]
    rows = ((_minute(minute), key, n) for (minute, key), n in sorted(counts.items()))
    return Events(topic, messages, len(counts), _hashed(rows))


def _events(messages: int) -> Iterator[tuple[int, int]]:
    """Key, and event time in milliseconds; late by less than the watermark's second."""
    chance = random.Random(SEED)
    for ordinal in range(messages - 1):
        yield chance.randrange(KEYS), ordinal * MINUTES * 60_000 // messages + chance.randrange(900)
    yield _LAST


def _minute(number: int) -> str:
    return (_BEGIN + datetime.timedelta(minutes=number)).strftime("%Y-%m-%d %H:%M:%S")


def _hashed(rows: Iterable[Sequence[object]]) -> str:
    found = hashlib.sha256()
    for minute, key, n in rows:
        found.update(f"{minute},{key},{n}\n".encode())
    return found.hexdigest()


def measure(servers: Servers, events: Events, system: System) -> dict[str, Any]:
    """Seconds and CPU of one system; returns the fields of a result."""
    with trial(servers, system, events.topic, [_DDL], LOOK_SECONDS) as one:
        counted = f"select 1 from {_TABLE} having count(*) >= {events.rows}"
        one.until(counted, "the last row", seconds=LIMIT_SECONDS)
        seconds = time.time() - one.held.started_at
        used = one.snapshot().since(one.start)
        ended = one.end(right=True)
        one.cursor.execute(f"select minute::text, key, n from {_TABLE} order by minute, key")
        right = _hashed(one.cursor) == events.sha256
    return {
        "seconds": round(seconds, 2),
        "rate_from_start": round(events.messages / seconds),
        **used,
        **ended,
        "correct": ended["correct"] and right,
    }


def sections(_: Plan, done: Sequence[Result]) -> Iterator[Section]:
    """At least as fast as the better of Flink's settings in the same run; not judged unless every run is correct."""
    groups = grouped(done, "messages", "system")
    what = "windowed count: seconds from process start, to those of Flink in the same run, median"
    goals = [Goal(what, 1.0, _to_flink(same.runs), "times Flink's") for same in grouped(done, "messages")]
    yield Section("windows", "A windowed count", [Table.of("Windows, medians", _COLUMNS, groups)], goals)


def _to_flink(done: Sequence[Result]) -> float | None:
    if not all(one["correct"] for one in done):
        return None
    runs = [{one["system"]: one["seconds"] for one in run.runs} for run in grouped(done, "run")]
    ratios = [run[SURELANE] / min(run[FLINK], run[FLINK_PARALLEL]) for run in runs]
    return round(statistics.median(ratios), 2)
