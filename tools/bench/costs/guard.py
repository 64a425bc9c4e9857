"""The cost of guard, accounting and metrics: one drain in which they are timed, and pairs of drains with and without
the guard.

Timed are their functions (`tools/bench/metered`) and the backends of their connections, found by application_name.
Meanwhile /metrics is scraped each second, fifteen times as often as usual. Their share is of all CPU seconds after
the start. The pairs (`guard.enabled: false`) measure the cost from outside. They are not judged: where two equal
drains differ by a fifth, they cannot resolve a few percent.
"""

import json
import socket
import statistics
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg2

from tools.bench import lane, results, servers
from tools.bench.backlog import Backlog
from tools.bench.costs import section, suite
from tools.bench.costs.axes import Case, base
from tools.bench.costs.measure import MODE, measure
from tools.bench.costs.pairs import in_turn, ratios
from tools.bench.goals import Goal
from tools.bench.machine import Cpu, single
from tools.bench.report import console, say
from tools.bench.results import cpu_used
from tools.bench.servers import Servers
from tools.bench.terminal import shown

ON, OFF = MODE, f"{MODE}-unguarded"
#: limit of their share of all CPU seconds
LIMIT_PERCENT = 5.0
METERED = Path(__file__).resolve().parents[1] / "metered"
_KEYS = ("rate", "cpu_microseconds_per_message", "metered_cpu_seconds", "correct", "error")
SCRAPE_SECONDS = 1.0
#: name of a timed part: the backends of guard and metrics
CONNECTIONS = "their connections"
LOOK_SECONDS = 0.2
_THEIRS = "select pid from pg_stat_activity where application_name ~ '^surelane .* (guard|metrics)$'"


def run(wanted: suite.Wanted, pairs: int) -> bool:
    """Measure; returns False if a lane failed or left a wrong table."""
    case = base(wanted.scale)
    done: list[dict[str, Any]] = []
    say("starting Kafka and Postgres")
    with servers.running(wanted.stack) as up, suite.filled(up, case) as made:
        for pair, mode in in_turn(pairs, ON, OFF, suite.describe(case)):
            done.append(_one(up, case, made, mode, pair))
        say("metrics and accounting, timed")
        metered = _emitted(
            "guard-metered", results.tried(suite.fields(case), lambda: {"value_bytes": 0, **_metered(up, made(), case)})
        )
    return _finished(wanted, done, metered)


def shares(metered: Mapping[str, Any]) -> dict[str, float]:
    """Percent of all CPU seconds after the start, by part; empty if the timed drain failed."""
    if not metered["correct"]:
        return {}
    whole = sum(cpu_used(dict(metered), "cpu_seconds_after_start").values())
    return {part: 100 * seconds / whole for part, seconds in metered["metered_cpu_seconds"].items()}


def goal(done: Sequence[Mapping[str, Any]], metered: Mapping[str, Any]) -> Goal:
    """The goal for the CPU share of all three together."""
    timed = shares(metered)
    known = bool(timed) and all(one["correct"] for one in done)
    found = round(sum(timed.values()), 2) if known else None
    return Goal(what="CPU of guard, accounting and metrics together", unit="%", limit=LIMIT_PERCENT, found=found)


def _one(up: Servers, case: Case, made: suite.Made, mode: str, pair: int) -> dict[str, Any]:
    what = {**suite.fields(case), "mode": mode, "pair": pair}
    return _emitted("guard-pair", results.tried(what, lambda: measure(up, made(), case, mode)))


def _metered(up: Servers, filled: Backlog, case: Case) -> results.Result:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings: dict[str, object] = {"metrics": {"port": port, "host": "127.0.0.1"}}
    with _scraped(port) as scrapes, _connections(up) as connections:
        found = measure(up, filled, case, settings=settings, python_path=METERED)
    used: dict[str, float] = {}
    for file in lane.FOLDER.glob("metered-*.json"):
        for part, seconds in json.loads(file.read_text()).items():
            used[part] = round(used.get(part, 0.0) + seconds, 4)
    if not used:
        raise RuntimeError(f"nothing was timed: no metered-*.json in {lane.FOLDER}")
    used[CONNECTIONS] = round(sum(connections.values()), 4)
    return {**found, "metered_cpu_seconds": used, "scrapes": len(scrapes)}


@contextmanager
def _scraped(port: int) -> Iterator[list[int]]:
    """Scrape /metrics each second; gives the sizes of the responses."""
    sizes = list[int]()

    def scrape() -> None:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            sizes.append(len(answer.read()))

    with _each(SCRAPE_SECONDS, scrape):
        yield sizes


@contextmanager
def _connections(up: Servers) -> Iterator[dict[int, Cpu]]:
    """CPU seconds of the backends of guard and metrics, by pid. A short connection between two polls is not found."""
    used = dict[int, Cpu]()
    connection = psycopg2.connect(up.stack.target.url())  # not to the lane's database, which is recreated meanwhile
    connection.autocommit = True

    def look() -> None:
        with connection.cursor() as cursor:
            cursor.execute(_THEIRS)
            for (pid,) in cursor.fetchall():
                used[pid] = max(used.get(pid, 0.0), single(pid))

    try:
        with _each(LOOK_SECONDS, look):
            yield used
    finally:
        connection.close()


@contextmanager
def _each(seconds: float, do: Callable[[], None]) -> Iterator[None]:
    """Call `do` periodically in a thread; its error is raised at the end of the block."""
    ended = threading.Event()

    def doing() -> None:
        while not ended.wait(seconds):
            do()

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(doing)
        try:
            yield
        finally:
            ended.set()
        done.result()


def _emitted(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    result = results.stamped(name, fields)
    results.emit(result)
    say("  " + ", ".join(f"{key} {result[key]}" for key in _KEYS if key in result))
    return result


def _finished(wanted: suite.Wanted, done: Sequence[dict[str, Any]], metered: dict[str, Any]) -> bool:
    cpu, rate, timed = (
        *(ratios(done, name, ON, OFF) for name in ("cpu_microseconds_per_message", "rate")),
        shares(metered),
    )
    judged, right = goal(done, metered), all(one["correct"] for one in (*done, metered))
    results.emit(
        results.stamped(
            "guard-goals",
            {
                "cpu_ratio": round(statistics.median(cpu), 3) if cpu else None,
                "rate_ratio": round(statistics.median(rate), 3) if rate else None,
                "metered_percent": {part: round(share, 3) for part, share in timed.items()},
                "goals": [judged.as_result()],
                "correct": right,
            },
        )
    )
    tables = section.guard_tables({"CPU a message": cpu, "messages/s": rate}, timed, judged)
    for one in tables:
        console.print(shown(one))
    if wanted.report:
        section.write_guard(wanted.report, wanted.command, [*done, metered], tables)
        say(f"written: {wanted.report}")
    return right
