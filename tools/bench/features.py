"""What each feature costs: the lane with one thing changed, in turn with the lane as it is by default; and one drain in
which guard, accounting and metrics are timed.

Machines drift, so a ratio is of one run, in which every variant is drained once; runs alternate their direction. In the
timed drain their functions (`tools/bench/metered`) and the backends of their connections, found by application_name,
are measured, and /metrics is scraped each second, fifteen times as often as usual. Their share is of all CPU seconds
after the start: where two equal drains differ by a fifth, ratios cannot resolve a few percent.
"""

import itertools
import json
import shutil
import socket
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg2

from tools.bench import costs, drain
from tools.bench.axes import BASE, Case, scaled
from tools.bench.costs import WARM_SHARE
from tools.bench.groups import (
    LOAD,
    STATE,
    Figure,
    Group,
    cpu_after_start,
    find,
    grouped,
    median_of,
    of_field,
    rate,
)
from tools.bench.page import Goal, Section, Table
from tools.bench.plan import Plan
from tools.bench.results import Result, Task, cpu_used
from tools.peers import lane
from tools.peers.lane import MODES
from tools.testbed.machine import Cpu, single
from tools.testbed.servers import Servers
from tools.testbed.tables import TABLE

DEFAULT, TIMED = "as it is by default", "timed"
#: a few groups that each epoch changes, and some thousands
ROLLUPS: Mapping[str, Any] = {
    "by_status": {
        "of": f"public.{TABLE.name}",
        "table": "public.by_status",
        "by": ["status"],
        "aggregates": {"entries": "count", "amount": "sum(amount)", "mean": "avg(amount)"},
    },
    "by_second": {
        "of": f"public.{TABLE.name}",
        "table": "public.by_second",
        "by": ["status"],
        "bucket": {"column": "updated_at", "width": "1 seconds"},
        "aggregates": {"entries": "count", "amount": "sum(amount)"},
    },
}
GUARD, WITH_ROLLUPS = "without the guard", "with two rollups"
ARCHIVE = Path("var/bench/archive")
#: what is changed -> the settings that change it
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    DEFAULT: {},
    GUARD: {"guard": {"enabled": False}},
    "position in the ledger, one commit": MODES["ledger"],
    "at least once": MODES["at-least-once"],
    "with an archive": {"archive": {"path": str(ARCHIVE.resolve())}},
    "aligned to source transactions": {"epoch": {"align": "source-transaction"}},
    "one task of Spark": {"stage": {"tasks": 1}},
    "two tasks of Spark": {"stage": {"tasks": 2}, "spark": {"master": "local[3]"}},
    "nothing staged ahead": {"stage": {"ahead_bytes": 0}},
    "decoder not compiled": {"source": {"compiled": False}},
    WITH_ROLLUPS: {"rollups": ROLLUPS},
}
#: limits: share of all CPU seconds of guard, accounting and metrics; share of the drain rate that two rollups cost
LIMIT_PERCENT, ROLLUPS_PERCENT = 5.0, 25.0
METERED = Path(__file__).resolve().parent / "metered"
#: name of a timed part: the backends of guard and metrics
CONNECTIONS = "their connections"
#: seconds between two looks at them, and looks from scrape to scrape of /metrics
LOOK_SECONDS, LOOKS_A_SCRAPE = 0.2, 5
_THEIRS = "select pid from pg_stat_activity where application_name ~ '^surelane .* (guard|metrics)$'"
_SHARES = (("part", lambda one: one[0]), ("% of all CPU seconds", lambda one: f"{one[1]:.2f}"))


def tasks(plan: Plan, up: Servers) -> Iterator[Task]:
    """In each run each variant, in the opposite order of the run before, and the timed drain."""
    case = scaled(BASE, plan.scale)
    case = replace(case, shape=replace(case.shape, in_transactions=True))
    names = list(VARIANTS)
    with costs.filled(up, case) as made:
        for run in plan.numbers:
            for name in names if run % 2 else names[::-1]:
                yield Task({**case.fields, "variant": name, "run": run}, partial(_measured, up, case, made, name))
            yield Task({**case.fields, "variant": TIMED, "run": run}, partial(_timed, up, case, made))


def sections(_: Plan, done: Sequence[Result]) -> Iterator[Section]:
    """One row for each variant, and the timed drain."""
    found = grouped(done, "variant")
    usual, timed, rollups = (find(found, variant=name) for name in (DEFAULT, TIMED, WITH_ROLLUPS))

    def ratio(figure: Figure, one: Group) -> str:
        return "" if one is usual else str(one.ratio(usual, figure) or "")

    columns = (
        ("lane", lambda one: one.get("variant")),
        *(("CPU µs a message", median_of(cpu_after_start, 2)), ("to the default", partial(ratio, cpu_after_start))),
        *(("messages/s", median_of(rate)), ("to the default", partial(ratio, rate))),
        *(STATE, LOAD),
    )
    text = f"{done[0]['messages']:,} messages a drain, epochs of {done[0]['epoch_messages']:,}; medians."
    parts = [
        text,
        Table.of("With one thing changed", columns, [one for one in found if one is not timed]),
        Table.of("Timed", _SHARES, shares(timed).items()),
    ]
    right = all(one["correct"] for one in done)
    lost = rollups.right_ratio(usual, rate) if right and rollups else None
    share = None if lost is None else round(100 * (1 - lost.middle), 1)
    used = round(sum(shares(timed).values()), 2) if right and timed else None
    goals = [
        Goal("CPU of guard, accounting and metrics together, timed", LIMIT_PERCENT, used, "%"),
        Goal("drain rate that two rollups cost, median of rounds", ROLLUPS_PERCENT, share, "%"),
    ]
    yield Section("features", "What each feature costs", parts, goals)


def shares(timed: Group | None) -> dict[str, float]:
    """Percent of all CPU seconds after the start, by timed part, medians; empty if no timed drain was right."""
    if timed is None or not timed.by_run:
        return {}
    parts = next(iter(timed.by_run.values()))["metered_cpu_seconds"]
    return {part: found for part in parts if (found := timed.median(partial(_share, part))) is not None}


def _share(part: str, run: Result) -> float | None:
    used = of_field("metered_cpu_seconds", part)(run)
    return None if used is None else 100 * used / sum(cpu_used(run, "cpu_seconds_after_first_look").values())


def _measured(up: Servers, case: Case, made: costs.Made, name: str) -> dict[str, Any]:
    shutil.rmtree(ARCHIVE, ignore_errors=True)  # of a lane on a database that is gone
    ARCHIVE.mkdir(parents=True)
    return drain.measure(up, made(), costs.system(case, settings=VARIANTS[name]), WARM_SHARE)


def _timed(up: Servers, case: Case, made: costs.Made) -> dict[str, Any]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    system = costs.system(case, settings={"metrics": {"port": port, "host": "127.0.0.1"}}, python_path=METERED)
    with _watched(up, port) as connections:
        found = drain.measure(up, made(), system, 0.0)
    used: dict[str, float] = {}
    for file in lane.FOLDER.glob("metered-*.json"):
        for part, seconds in json.loads(file.read_text()).items():
            used[part] = round(used.get(part, 0.0) + seconds, 4)
    if not used:
        raise RuntimeError(f"nothing was timed: no metered-*.json in {lane.FOLDER}")
    used[CONNECTIONS] = round(sum(connections.values()), 4)
    return {**found, "metered_cpu_seconds": used}


@contextmanager
def _watched(up: Servers, port: int) -> Iterator[Mapping[int, Cpu]]:
    """CPU seconds of the backends of guard and metrics, by pid; a short connection between two looks is not found.
    Between the looks /metrics is scraped. What fails is raised at the end of the block."""
    used, ended = dict[int, Cpu](), threading.Event()

    def watch() -> None:
        # not to the lane's database, which is recreated meanwhile
        with closing(psycopg2.connect(up.stack.target.url())) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            for number in itertools.count():
                if ended.wait(LOOK_SECONDS):
                    return
                cursor.execute(_THEIRS)
                for (pid,) in cursor.fetchall():
                    used[pid] = max(used.get(pid, 0.0), single(pid))
                if number % LOOKS_A_SCRAPE == 0:
                    with suppress(OSError):
                        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read()

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(watch)
        try:
            yield used
        finally:
            ended.set()
        done.result()
