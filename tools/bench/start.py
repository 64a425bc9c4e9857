"""Measures what the start of a lane is made of, on an idle machine.

process start .. worker forked .. JVM started .. lane open .. query started .. first epoch planned .. rows visible

With `commit: ledger` rows are visible before Spark has planned an epoch with them. Each mark is the time since the
process' start. Servers are warm, the lane has its tables and no checkpoint.
"""

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tools.bench import backlog, lane, report
from tools.bench.backlog import Backlog
from tools.bench.child import answer, is_right, until
from tools.bench.drain import LIMIT_SECONDS
from tools.bench.epochs import seconds_of
from tools.bench.goals import Goal
from tools.bench.lane import PARTS, TWO_PHASE, Lane
from tools.bench.machine import Snapshot
from tools.bench.page import Table
from tools.bench.report import Case, Measure, number
from tools.bench.results import rehearse, state
from tools.bench.servers import Servers
from tools.bench.tables import TABLE
from tools.bench.workload import SENTINEL, Kind

#: of the short backlog
MESSAGES = 2000
#: seconds from process start to the first visible rows, median
LIMIT = 5.0
#: seconds between two looks for rows
_LOOK_SECONDS = 0.01
_ROWS = f"select 1 from {TABLE.name} limit 1"
_LAST = f"select 1 from {TABLE.name} where id = {SENTINEL}"
#: a mark -> its column
MARKS: Mapping[str, str] = {
    "worker_forked": "worker forked, s",
    "jvm_started": "JVM started",
    "lane_open": "lane open",
    "query_started": "query started",
    "epoch_planned": "epoch planned",
    "visible": "rows visible",
}
#: CPU seconds until the rows are visible
_CPU = (*PARTS, "tasks", "postgres", "kafka")


def run(wanted: report.Wanted, modes: Sequence[str]) -> bool:
    """Run bench-start."""
    measured = Measure(
        key="start",
        title="A start",
        cases=partial(_cases, modes),
        parts=lambda done: [_starts(done)],
        goals=goals,
    )
    return report.run(wanted, measured)


def _cases(modes: Sequence[str], up: Servers) -> Sequence[Case]:
    filled = backlog.prepare(up, Kind.UNIFORM.shape, MESSAGES)
    rehearse("a start", partial(measure, up, filled, modes[0]))
    return [({"mode": mode, "messages": MESSAGES}, partial(measure, up, filled, mode)) for mode in modes]


def measure(servers: Servers, filled: Backlog, mode: str) -> dict[str, Any]:
    """Measure one start; returns the fields of a result."""
    servers.empty_database(filled.tables, with_ledger=True)
    start = Snapshot.of(servers.cpu())
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        lane.running(servers, filled.topic, mode) as held,
    ):
        until(lambda: answer(cursor, _ROWS), held, "the first rows", every=_LOOK_SECONDS, seconds=LIMIT_SECONDS)
        end, visible = Snapshot.of({**servers.cpu(), **held.cpu()}), time.time()
        until(lambda: answer(cursor, _LAST), held, "the last message", every=_LOOK_SECONDS, seconds=LIMIT_SECONDS)
        until(_first_entry().exists, held, "the plan of an epoch", every=_LOOK_SECONDS, seconds=LIMIT_SECONDS)
        marks = _marks(held, visible)
        right = is_right(servers, filled.tables, filled.expected)
        status = held.stop()
    prepared = servers.prepared()
    return {
        "seconds": marks,
        **end.since(start),
        "prepared_left": prepared,
        "exit_status": status,
        "correct": right and not prepared and not status,
    }


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
        "query_started": (lane.checkpoint() / "metadata").stat().st_mtime,
        "epoch_planned": _first_entry().stat().st_mtime,
        "visible": visible,
    }
    return {name: round(seconds - held.started_at, 2) for name, seconds in at.items()}


def medians(done: Sequence[Mapping[str, Any]], mode: str) -> Mapping[str, float]:
    """Of each mark, over the starts of this mode."""
    found = [one["seconds"] for one in done if one["mode"] == mode and one["correct"]]
    return {name: statistics.median(one[name] for one in found) for name in MARKS} if found else {}


def goals(done: Sequence[Mapping[str, Any]]) -> list[Goal]:
    """The goal for the default mode; not judged unless every start is correct."""
    found = medians(done, TWO_PHASE) if all(one["correct"] for one in done) else {}
    what = "process start to the first visible rows, median"
    return [Goal(what=what, unit="s", limit=LIMIT, found=found.get("visible"))]


def _starts(done: Sequence[Mapping[str, Any]]) -> Table:
    columns = ("run", "mode", *MARKS.values(), *(f"CPU s: {_CPU[0]}", *_CPU[1:]), "state")
    rows = [
        (
            *(str(one["run"]), one["mode"]),
            *(number(one.get("seconds", {}).get(name), 2) for name in MARKS),
            *(number(one.get("cpu_seconds", {}).get(name), 2) for name in _CPU),
            state(one),
        )
        for one in done
    ]
    modes = list(dict.fromkeys(one["mode"] for one in done))
    middle = [
        ("median", mode, *(number(found[name], 2) for name in MARKS), *("" for _ in _CPU), "")
        for mode in modes
        if (found := medians(done, mode))
    ]
    return Table(title="Starts", columns=columns, rows=[*rows, *middle] if len(done) > len(modes) else rows)
