"""Measures what the start of a lane is made of, on an idle machine.

process start .. worker forked .. JVM started .. lane open .. first epoch planned .. rows visible

With `commit: ledger` rows are visible before Spark has planned an epoch with them. Each mark is the time since the
process' start. Servers are warm, the lane has its tables and no checkpoint.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tools.bench.groups import LOAD, STATE, SYSTEM, Figure, find, grouped, median_of, of_field, spread_of
from tools.bench.page import Goal, Section, Table
from tools.bench.plan import Plan
from tools.bench.results import Result, Task, rehearse
from tools.bench.trial import trial
from tools.peers import lane
from tools.peers.lane import PARTS, Lane, seconds_of
from tools.peers.systems import SURELANE, System
from tools.testbed import backlog
from tools.testbed.backlog import Backlog
from tools.testbed.servers import Servers
from tools.testbed.tables import TABLE
from tools.testbed.workload import Kind

#: of the short backlog
MESSAGES = 2000
#: seconds from process start to the first visible rows, median
LIMIT = 5.0
#: a mark -> its column
MARKS: Mapping[str, str] = {
    "worker_forked": "worker forked, s",
    "jvm_started": "JVM started",
    "lane_open": "lane open",
    "epoch_planned": "epoch planned",
    "visible": "rows visible",
}
_VISIBLE: Figure = of_field("seconds", "visible")
#: processes whose CPU seconds until the rows are visible are shown
_CPU = (*PARTS, "tasks", "postgres", "kafka")
_COLUMNS = (
    SYSTEM,
    *((column, median_of(of_field("seconds", mark), 2)) for mark, column in MARKS.items()),
    ("from - to", spread_of(_VISIBLE, 2)),
    *(("CPU s: " * (part == _CPU[0]) + part, median_of(of_field("cpu_seconds", part), 2)) for part in _CPU),
    *(STATE, LOAD),
)


def tasks(plan: Plan, up: Servers) -> Iterator[Task]:
    filled = backlog.prepare(up, Kind.UNIFORM.shape, MESSAGES)
    if plan.rehearsal:
        rehearse("a start", partial(measure, up, filled, plan.systems[0]))
    for run, _, messages, system in plan.passes([MESSAGES]):
        yield Task({"system": system.name, "messages": messages, "run": run}, partial(measure, up, filled, system))


def measure(servers: Servers, filled: Backlog, system: System) -> dict[str, Any]:
    """Measure one start; returns the fields of a result."""
    with trial(servers, system, filled.topic, filled.shape.ddl) as one:
        one.until(f"select 1 from {TABLE.name} limit 1", "the first rows")
        end, visible = one.snapshot(), time.time()
        one.until_last()
        one.until(_first_entry().exists, "the plan of an epoch")
        marks = _marks(one.lane, visible)
        ended = one.end(one.reaches(filled.tables, filled.expected))
    return {"seconds": marks, **end.since(one.start), **ended}


def _first_entry() -> Path:
    return lane.checkpoint() / "offsets" / "0"


def _marks(held: Lane, visible: float) -> dict[str, float]:
    """Seconds since the process' start."""
    created = {part: psutil.Process(held.pids()[part]).create_time() for part in PARTS}
    # the system gives times of creation only to about a second; their differences are right
    began = held.started_at - created["supervisor"]
    logged = [json.loads(line) for line in held.log.read_text().splitlines() if line.startswith("{")]
    at = {
        "worker_forked": began + created["driver"],
        "jvm_started": began + created["jvm"],
        "lane_open": next(seconds_of(event["timestamp"]) for event in logged if event["event"] == "start"),
        "epoch_planned": _first_entry().stat().st_mtime,
        "visible": visible,
    }
    return {name: round(seconds - held.started_at, 2) for name, seconds in at.items()}


def sections(_: Plan, done: Sequence[Result]) -> Iterator[Section]:
    """Medians by lane, and the goal of the default mode."""
    groups = grouped(done, "system")
    usual = find(groups, system=SURELANE)
    visible = usual.judged(_VISIBLE) if usual else None
    goal = Goal("process start to the first visible rows, median", LIMIT, visible, "s")
    yield Section("start", "A start", [Table.of("Starts, medians", _COLUMNS, groups)], [goal])
