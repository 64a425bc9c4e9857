"""What each feature costs: the lane with one thing changed, in turn with the lane as it is by default; and one drain in
which guard, accounting and metrics are timed.

Machines drift, so a ratio is of one round, in which every variant is drained once; rounds alternate their direction. In
the timed drain their functions (`tools/bench/metered`) and the backends of their connections, found by
application_name, are measured, and /metrics is scraped each second, fifteen times as often as usual. Their share is of
all CPU seconds after the start: where two equal drains differ by a fifth, rounds cannot resolve a few percent.
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
from tools.bench.axes import Case, base
from tools.bench.costs import WARM_SHARE
from tools.bench.page import Goal, Section, Table
from tools.bench.report import Measure
from tools.bench.results import Result, Task, cpu_used
from tools.bench.summary import Figure, Group, cell, find, grouped, median_of, of_field, rate
from tools.peers import lane
from tools.peers.lane import MODES
from tools.testbed.machine import Cpu, single
from tools.testbed.servers import Servers
from tools.testbed.tables import TABLE

DEFAULT = "as it is by default"
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
_RATE, _CPU = rate, of_field("cpu_microseconds_per_message")
_SHARES = (("part", lambda one: one[0]), ("% of all CPU seconds", lambda one: f"{one[1]:.2f}"))


def of_features(scale: float) -> Measure:
    """Of bench-costs --features."""
    case = base(scale)
    case = replace(case, shape=replace(case.shape, in_transactions=True))
    text = f"{case.messages:,} messages a drain, epochs of {case.epoch:,}"
    return Measure("features", partial(_tasks, case), lambda done: [section(done, text)])


def section(done: Sequence[Result], text: str) -> Section:
    """One row for each variant, and the timed drain."""
    found = grouped(done, "feature", "variant")
    usual = find(found, variant=DEFAULT)

    def ratio(figure: Figure, one: Group) -> str:
        return "" if one is usual else str(one.ratio(usual, figure) or "")

    columns = (
        ("lane", cell("variant")),
        *(("CPU µs a message", median_of(_CPU, 2)), ("to the default", partial(ratio, _CPU))),
        *(("messages/s", median_of(_RATE)), ("to the default", partial(ratio, _RATE))),
        *(("others' load", lambda one: one.load), ("table", lambda one: one.state)),
    )
    rounds = max((len(one.runs) for one in found), default=0)
    parts = [
        f"{text}; {rounds} rounds.",
        Table.of("With one thing changed", columns, found),
        Table.of("Timed", _SHARES, shares(done).items()),
    ]
    return Section("features", "What each feature costs", parts, _goals(done, found))


def shares(done: Sequence[Result]) -> dict[str, float]:
    """Percent of all CPU seconds after the start, by timed part; empty if the timed drain failed."""
    metered = next((one for one in done if one["measure"] == "feature-timed" and one["correct"]), None)
    if metered is None:
        return {}
    whole = sum(cpu_used(metered, "cpu_seconds_after_first_look").values())
    return {part: 100 * seconds / whole for part, seconds in metered["metered_cpu_seconds"].items()}


def _goals(done: Sequence[Result], found: Sequence[Group]) -> list[Goal]:
    """Not judged unless every drain is right."""
    right = all(one["correct"] for one in done)
    timed, rollups = shares(done), find(found, variant=WITH_ROLLUPS)
    lost = rollups.ratio(find(found, variant=DEFAULT), _RATE) if right and rollups else None
    used = round(sum(timed.values()), 2) if right and timed else None
    share = None if lost is None else round(100 * (1 - lost.middle), 1)
    return [
        Goal("CPU of guard, accounting and metrics together, timed", LIMIT_PERCENT, used, "%"),
        Goal("drain rate that two rollups cost, median of rounds", ROLLUPS_PERCENT, share, "%"),
    ]


def _tasks(case: Case, up: Servers, runs: int) -> Iterator[Task]:
    names = list(VARIANTS)
    with costs.filled(up, case) as made:
        for number in range(1, runs + 1):
            for name in names if number % 2 else names[::-1]:
                what = {**case.fields, "variant": name, "run": number}
                yield Task("feature", what, partial(_measured, up, case, made, name))
        yield Task("feature-timed", case.fields, partial(_timed, up, case, made))


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
