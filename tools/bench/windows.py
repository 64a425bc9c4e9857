"""Measures a windowed count: JSON from Kafka, counted by minute and key with RocksDB, into a table of Postgres.

Each window is written once, when it has ended: the watermark is a second behind the newest event time. The last message
ends all windows but its own, so the result of all others is known. Seconds are from process start to the last row.
"""

import datetime
import hashlib
import json
import random
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tools.bench import flink, lane, report
from tools.bench.child import Running, answer, until
from tools.bench.goals import Goal
from tools.bench.machine import Snapshot
from tools.bench.page import Table
from tools.bench.report import Case, Measure
from tools.bench.results import cpu_used, state
from tools.bench.servers import Servers
from tools.bench.terminal import say

#: systems by name
SURELANE, FLINK, FLINK_PARALLEL = "surelane", "flink", "flink, parallelism 2"
SYSTEMS = (SURELANE, FLINK, FLINK_PARALLEL)
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
_PRODUCER = {"compression.type": "lz4", "linger.ms": 50, "batch.size": 1_000_000, "acks": 1}
_FLUSH_SECONDS = 60.0
_QUERY = "by_minute"
_TABLE = "counts"
_DDL = f"create table {_TABLE} (minute timestamp, key bigint, n bigint, primary key (minute, key))"
_FOLDER = Path("var/bench/windows")
#: for Surelane: Spark does not count the keys, as Flink does not; it would look each one up before it is written
_NO_COUNT = {"spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false"}
_WATERMARK = {"column": "at", "delay": "1 seconds"}
_SQL = """
    select cast(window.start as timestamp_ntz) as minute, key, count(*) as n from events
    group by window(at, '1 minute'), key
"""


@dataclass(frozen=True)
class Events:
    """A topic of one partition."""

    topic: str
    messages: int
    #: rows of the result
    rows: int
    #: of the result, in the order of minute and key
    sha256: str


def run(wanted: report.Wanted, messages: int) -> bool:
    """Run bench-windows."""
    say("fetching and compiling Flink's job, unless it is there")
    flink.classes()

    def cases(up: Servers) -> Iterator[Case]:
        say(f"{messages:,} messages over {KEYS:,} keys: making them")
        made = prepared(up, messages)
        for system in SYSTEMS:
            what = {"system": system, "messages": messages, "rows": made.rows}
            yield what, partial(measure, up, made, system)

    measured = Measure(
        key="windows", title="A windowed count", cases=cases, parts=lambda done: [_table(done)], goals=goals
    )
    return report.run(wanted, measured)


def _table(done: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            *(one["system"], str(one["run"]), f"{one['rows']:,}", report.number(one.get("seconds"), 1)),
            f"{sum(cpu_used(one).values()):.1f}" if one["correct"] else "",
            report.number(cpu_used(one).get("postgres"), 1) if one["correct"] else "",
            state(one),
        )
        for one in done
    ]
    columns = ("system", "run", "rows", "seconds", "CPU s", "of Postgres", "table")
    return Table(title="Windows", columns=columns, rows=rows)


def prepared(servers: Servers, messages: int) -> Events:
    """The topic, made anew."""
    topic, counts = f"bench.windows.{messages}", Counter[tuple[int, int]]()
    servers.empty_topic(topic)
    producer = Producer({**_PRODUCER, "bootstrap.servers": servers.bootstrap})
    for key, milliseconds in _events(messages):
        at = (_BEGIN + datetime.timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")
        value = json.dumps({"key": key, "at": at.replace("+00:00", "Z")})
        producer.produce(topic, value)
        producer.poll(0)
        counts[milliseconds // 60_000, key] += 1
        while len(producer) > 50_000:
            producer.poll(0.01)
    if producer.flush(_FLUSH_SECONDS):
        raise RuntimeError("Kafka did not take all messages in time")
    del counts[_LAST[1] // 60_000, _LAST[0]]
    lines = (f"{_minute(number)},{key},{n}\n" for (number, key), n in sorted(counts.items()))
    return Events(topic, messages, len(counts), _hashed(lines))


def _events(messages: int) -> Iterator[tuple[int, int]]:
    """Key, and event time in milliseconds; late by less than the watermark's second."""
    chance = random.Random(SEED)
    for number in range(messages - 1):
        yield chance.randrange(KEYS), number * MINUTES * 60_000 // messages + chance.randrange(900)
    yield _LAST


def _minute(number: int) -> str:
    return (_BEGIN + datetime.timedelta(minutes=number)).strftime("%Y-%m-%d %H:%M:%S")


def _hashed(lines: Iterator[str]) -> str:
    found = hashlib.sha256()
    for line in lines:
        found.update(line.encode())
    return found.hexdigest()


def measure(servers: Servers, events: Events, system: str) -> dict[str, Any]:
    """Seconds and CPU of one system; returns the fields of a result."""
    servers.empty_database([], with_ledger=system == SURELANE)
    with servers.connect() as probe, probe.cursor() as cursor:
        cursor.execute(_DDL)
        start = Snapshot.of(servers.cpu())
        with _running(servers, events.topic, system) as started:
            until(
                lambda: answer(cursor, f"select 1 from {_TABLE} having count(*) >= {events.rows}"),
                started,
                "the last row",
                every=LOOK_SECONDS,
                seconds=LIMIT_SECONDS,
            )
            seconds = time.time() - started.started_at
            end = Snapshot.of({**servers.cpu(), **started.cpu()})
        cursor.execute(f"select minute::text, key, n from {_TABLE} order by minute, key")
        right = _hashed(f"{minute},{key},{n}\n" for minute, key, n in cursor) == events.sha256
    return {
        "seconds": round(seconds, 2),
        "rate_from_start": round(events.messages / seconds),
        **end.since(start),
        "correct": right,
    }


@contextmanager
def _running(servers: Servers, topic: str, system: str) -> Iterator[Running]:
    if system == SURELANE:
        query: Mapping[str, Any] = {
            "topics": {"events": {"topic": topic, "columns": "key bigint, at timestamp", "watermark": _WATERMARK}},
            "sql": _SQL,
            "table": f"public.{_TABLE}",
            "output": "append",
            "state": {"memory_bytes": STATE_MEGABYTES << 20},
        }
        settings = {"queries": {_QUERY: query}, "spark": {"conf": _NO_COUNT}}
        with lane.running(servers, topic, settings=settings, arguments=("--query", _QUERY)) as started:
            yield started
        return
    folder = _FOLDER.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    more = {"parallelism": 2 if system == FLINK_PARALLEL else 1, "state_megabytes": STATE_MEGABYTES}
    with flink.running(servers, topic, folder, job="WindowJob", table=_TABLE, **more) as started:
        yield started


def goals(done: Sequence[Mapping[str, Any]]) -> list[Goal]:
    """At least as fast as the better of Flink's settings in the same run; not judged unless every run is correct."""
    ratios = [one for run in {one["run"] for one in done} if (one := _ratio([d for d in done if d["run"] == run]))]
    is_right = bool(done) and all(one["correct"] for one in done)
    return [
        Goal(
            what="windowed count: seconds from process start, to those of Flink in the same run, median",
            unit="times Flink's",
            limit=1.0,
            found=round(statistics.median(ratios), 2) if is_right and ratios else None,
        )
    ]


def _ratio(run: Sequence[Mapping[str, Any]]) -> float | None:
    seconds = {one["system"]: one["seconds"] for one in run if one["correct"]}
    peers = [seconds[name] for name in (FLINK, FLINK_PARALLEL) if name in seconds]
    return seconds[SURELANE] / min(peers) if peers and SURELANE in seconds else None
