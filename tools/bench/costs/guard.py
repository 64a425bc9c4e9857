"""What guard, accounting and metrics cost: one drain in which they are timed, and the same lane with the guard and
without, in turn.

Their functions are timed (`tools/bench/metered`), and so are the server's processes for their connections, which it
knows by their names. /metrics is read each second meanwhile, fifteen times as often as is usual. Their share is that
of all CPU seconds after the start. The pairs (`guard.enabled: false`) show it from outside. On machines where two
equal drains differ by a fifth they cannot tell a few percent, so nothing is judged by them.
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
from tools.bench.goals import Goal
from tools.bench.machine import Cpu, single
from tools.bench.report import console, say
from tools.bench.results import cpu_used
from tools.bench.servers import Servers
from tools.bench.terminal import shown

ON, OFF = MODE, f"{MODE}-unguarded"
#: percent of the CPU seconds
LIMIT_PERCENT = 5.0
METERED = Path(__file__).resolve().parents[1] / "metered"
_SAID = ("rate", "cpu_microseconds_per_message", "metered_cpu_seconds", "correct", "error")
SCRAPE_SECONDS = 1.0
#: part of what was timed: the server's side of guard and metrics
CONNECTIONS = "their connections"
LOOK_SECONDS = 0.2
_THEIRS = "select pid from pg_stat_activity where application_name ~ '^surelane .* (guard|metrics)$'"


def run(wanted: suite.Wanted, pairs: int) -> bool:
    """False when a lane failed or left a wrong table."""
    case = base(wanted.scale)
    done: list[dict[str, Any]] = []
    say("starting Kafka and Postgres")
    with servers.running(wanted.stack) as up, suite.filled(up, case) as made:
        for pair in range(1, pairs + 1):
            # who goes first takes turns
            for mode in (ON, OFF) if pair % 2 else (OFF, ON):
                say(f"pair {pair} of {pairs}, {mode}: {suite.told(case)}")
                done.append(_one(up, case, made, mode, pair))
        say("metrics and accounting, timed")
        metered = _said(
            "guard-metered", results.tried(suite.fields(case), lambda: {"value_bytes": 0, **_metered(up, made(), case)})
        )
    return _finished(wanted, done, metered)


def ratios(done: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """With the guard to without it, of each pair whose two sides are right and known; 1: it costs nothing."""
    sides = {(one["pair"], one["mode"]): one.get(name) for one in done if one["correct"]}
    both = [(sides.get((pair, ON)), sides.get((pair, OFF))) for pair in dict.fromkeys(one["pair"] for one in done)]
    return [on / off for on, off in both if on and off]


def shares(metered: Mapping[str, Any]) -> dict[str, float]:
    """Percent of all CPU seconds after the start, by part; empty when it failed."""
    if not metered["correct"]:
        return {}
    whole = sum(cpu_used(dict(metered), "cpu_seconds_after_start").values())
    return {part: 100 * seconds / whole for part, seconds in metered["metered_cpu_seconds"].items()}


def goal(done: Sequence[Mapping[str, Any]], metered: Mapping[str, Any]) -> Goal:
    """What is asked of all three together."""
    timed = shares(metered)
    known = bool(timed) and all(one["correct"] for one in done)
    found = round(sum(timed.values()), 2) if known else None
    return Goal(what="CPU of guard, accounting and metrics together", unit="%", limit=LIMIT_PERCENT, found=found)


def _one(up: Servers, case: Case, made: suite.Made, mode: str, pair: int) -> dict[str, Any]:
    what = {**suite.fields(case), "mode": mode, "pair": pair}
    return _said("guard-pair", results.tried(what, lambda: measure(up, made(), case, mode)))


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
    """Read /metrics each second; gives the sizes of the answers."""
    sizes = list[int]()

    def scrape() -> None:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            sizes.append(len(answer.read()))

    with _each(SCRAPE_SECONDS, scrape):
        yield sizes


@contextmanager
def _connections(up: Servers) -> Iterator[dict[int, Cpu]]:
    """What the server's processes for their connections use, as far as a look finds them: a short one may come and
    go between two."""
    used = dict[int, Cpu]()
    connection = psycopg2.connect(up.stack.target.url())  # the lane's own database is made anew meanwhile
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
    """Done again and again by a thread of its own; what it raises is raised at the end."""
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


def _said(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    result = results.stamped(name, fields)
    results.emit(result)
    say("  " + ", ".join(f"{key} {result[key]}" for key in _SAID if key in result))
    return result


def _finished(wanted: suite.Wanted, done: Sequence[dict[str, Any]], metered: dict[str, Any]) -> bool:
    cpu, rate, timed = ratios(done, "cpu_microseconds_per_message"), ratios(done, "rate"), shares(metered)
    asked, right = goal(done, metered), all(one["correct"] for one in (*done, metered))
    results.emit(
        results.stamped(
            "guard-goals",
            {
                "cpu_ratio": round(statistics.median(cpu), 3) if cpu else None,
                "rate_ratio": round(statistics.median(rate), 3) if rate else None,
                "metered_percent": {part: round(share, 3) for part, share in timed.items()},
                "goals": [asked.as_result()],
                "correct": right,
            },
        )
    )
    tables = section.guard_tables({"CPU a message": cpu, "messages/s": rate}, timed, asked)
    for one in tables:
        console.print(shown(one))
    if wanted.report:
        section.write_guard(wanted.report, wanted.command, [*done, metered], tables)
        say(f"written: {wanted.report}")
    return right
