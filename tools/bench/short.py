"""The commands bench-burst and bench-restart: measure a few times, print each result, judge all, write the section."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tools.bench import burst, goals, page, restart, results, servers, windows
from tools.bench.goals import Goal
from tools.bench.lane import PARTS
from tools.bench.page import Section, Table
from tools.bench.peers import flink
from tools.bench.report import console, say
from tools.bench.results import cpu_used
from tools.bench.servers import Servers
from tools.bench.terminal import shown

_Result = dict[str, Any]
_KEYS = (
    "seconds",
    "rate_from_start",
    "cpu_seconds",
    "other_load",
    "hidden_milliseconds",
    "whole_milliseconds",
    *restart.FIGURES,
    "in_doubt_at_kill",
    "correct",
    "error",
)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options of both commands."""

    stack: str
    runs: int
    report: Path | None
    command: str


def bursts(wanted: Wanted, size: int, count: int) -> bool:
    """Run bench-burst; returns False if the lane failed or left a wrong table."""
    what = {"messages": size * count, "size": size, "bursts": count}
    done = _measured("burst", wanted, [_Case(what=what, measure=lambda up: burst.measure(up, size, count))])
    goal_list = [goal for result in done if result["correct"] for goal in burst.goals(result)]
    text = (
        f"{count} bursts of {size:,} messages into an idle lane, mode two-phase, a look every 2 ms from another "
        "connection. Measured is the time from the last change of the file `commits/N` of the burst's last epoch to "
        f"the first look that sees the epoch. {burst.WARM_UP_BURSTS} bursts before them are not counted."
    )
    return _finished(wanted, "burst", "The end of a burst", text, _bursts(done), goal_list, done)


def restarts(wanted: Wanted, load: restart.Load) -> bool:
    """Run bench-restart; returns False if the lane failed, or left a wrong table or a prepared transaction."""
    what = {"messages": load.messages, "asked_rate": load.rate}
    done = _measured("restart", wanted, [_Case(what=what, measure=partial(restart.measure, load=load))])
    text = (
        f"A lane, mode two-phase, at {load.rate:,} messages/s; after {load.before} s SIGKILL to all of its processes "
        f"at once, started again at once with the same checkpoint, the load held for another {load.after} s. Seconds "
        "from the new process' start to the first look (every 2 ms) that sees an epoch of the new generation; to the "
        "first that leaves no message older than a second unseen; and to the first that brings no message later than "
        "99 % were before the kill. Right: the table is what the changes fold to, the ledger ends where the topic "
        "ends, nothing is left prepared."
    )
    return _finished(wanted, "restart", "Killed under load", text, _restarts(done), restart.goals(done), done)


def recoveries(wanted: Wanted, loads: Sequence[restart.Load]) -> bool:
    """Run bench-recovery; returns False if a lane failed, or left a wrong table or a prepared transaction."""
    cases = [
        _Case(
            called=f"{load.rate:,} messages/s, an epoch each {load.trigger}",
            what={"messages": load.messages, "asked_rate": load.rate, "trigger": load.trigger},
            measure=partial(restart.measure, load=load),
        )
        for load in loads
    ]
    done = _measured("recovery", wanted, cases)
    text = (
        "What larger epochs cost and save. A lane, mode two-phase, at a steady rate, with `epoch.trigger` as in the "
        f"table: an epoch gathers what came meanwhile. Latency and CPU of the second half of {loads[0].before} s; then "
        "SIGKILL to all of its processes, started again at once. CPU is of the lane's processes and of Postgres, in "
        "milliseconds for 1,000 messages. The rest is measured as under *Killed under load*; a lag under a second is "
        "reached late or never where epochs gather for longer."
    )
    return _finished(wanted, "recovery", "Epoch size and recovery", text, _curve(done), (), done)


def counted_windows(wanted: Wanted, messages: int) -> bool:
    """Run bench-windows; returns False if a system failed or left a wrong table."""
    say("fetching and compiling Flink's job, unless it is there")
    flink.classes()
    made: list[windows.Events] = []

    def measure(up: Servers, system: str) -> _Result:
        if not made:
            say(f"  {messages:,} messages over {windows.KEYS:,} keys: making them")
            made.append(windows.prepared(up, messages))
        return windows.measure(up, made[0], system)

    cases = [
        _Case(called=system, what={"system": system, "messages": messages}, measure=partial(measure, system=system))
        for system in windows.SYSTEMS
    ]
    done = _measured("windows", wanted, cases)
    rows = f"{made[0].rows:,} rows of result" if made else "no result"
    text = (
        f"{messages:,} messages of JSON over {windows.KEYS:,} keys, counted by minute and key with RocksDB "
        f"({windows.STATE_MEGABYTES} MiB), into a table of Postgres; each window once, when it has ended. {rows}. "
        "Seconds from process start to the last row. Surelane: a query, two-phase, 2 partitions of state, whose keys "
        "are not counted (docs/QUERIES.md). Flink 1.20 SQL: checkpoints each second, incremental, its JDBC table (at "
        "least once) with 5,000 rows a batch and reWriteBatchedInserts."
    )
    return _finished(wanted, "windows", "A windowed count", text, _windows(done), windows.goals(done), done)


def _windows(done: Sequence[dict[str, Any]]) -> Table:
    rows = [
        (
            one["system"],
            str(one["run"]),
            _seconds(one.get("seconds")),
            f"{sum(cpu_used(one).values()):.1f}" if one["correct"] else "",
            _seconds(cpu_used(one).get("postgres")) if one["correct"] else "",
            state(one),
        )
        for one in done
    ]
    return Table(title="Windows", columns=("system", "run", "seconds", "CPU s", "of Postgres", "table"), rows=rows)


def _curve(done: Sequence[Mapping[str, Any]]) -> Table:
    columns = (
        *("messages/s", "trigger", "messages an epoch", "p50 ms", "p99 ms", "CPU ms for 1,000"),
        *("first new epoch, s", "lag under 1 s, s", "in doubt at the kill", "state"),
    )
    rows = [
        (
            f"{one['asked_rate']:,}",
            str(one["trigger"]),
            f"{one['messages_before_kill'] / max(1, one['epochs_before_kill']):,.0f}" if one["correct"] else "",
            *[_seconds(one.get(f"before_{name}_milliseconds"), 0) for name in ("p50", "p99")],
            _cpu(one) if one["correct"] else "",
            *[_seconds(one.get(figure)) for figure in restart.FIGURES[:2]],
            str(one.get("in_doubt_at_kill", "")),
            state(one),
        )
        for one in done
    ]
    return Table(title="Recovery", columns=columns, rows=rows)


def _cpu(one: Mapping[str, Any]) -> str:
    seconds = sum(used for name, used in one["cpu_seconds"].items() if name in (*PARTS, "tasks", "postgres"))
    return f"{seconds * 1e6 / one['messages_before_kill']:,.0f}"


@dataclass(frozen=True, kw_only=True)
class _Case:
    #: beside the measurement's name; "" where there is one case
    called: str = ""
    #: fields of its results
    what: _Result
    measure: Callable[[Servers], _Result]


def _measured(name: str, wanted: Wanted, cases: Sequence[_Case]) -> list[_Result]:
    done: list[_Result] = []
    say("starting Kafka and Postgres")
    with servers.running(wanted.stack) as up:
        for case in cases:
            for run in range(1, wanted.runs + 1):
                say(", ".join(filter(None, (name, case.called, f"run {run} of {wanted.runs}"))))
                tried = results.tried({**case.what, "run": run}, partial(case.measure, up))
                result = results.stamped(name, tried)
                results.emit(result)
                say("  " + ", ".join(f"{key} {result[key]}" for key in _KEYS if key in result))
                done.append(result)
    return done


def _finished(
    wanted: Wanted, key: str, title: str, text: str, found: Table, goal_list: Sequence[Goal], done: Sequence[_Result]
) -> bool:
    right = all(result["correct"] for result in done)
    summary = {"runs": len(done), "goals": [goal.as_result() for goal in goal_list], "correct": right}
    results.emit(results.stamped(f"{key}-goals", summary))
    tables = [found, *([goals.table(goal_list)] if goal_list else [])]
    for one in tables:
        console.print(shown(one))
    if wanted.report:
        parts = [text, *[one.markdown() for one in tables]]
        page.put(wanted.report, Section(key=key, title=title, command=wanted.command, parts=parts))
        say(f"written: {wanted.report}")
    return right


def _bursts(done: Sequence[Mapping[str, Any]]) -> Table:
    columns = (
        "run",
        "after the entry: p50 ms",
        "p90",
        "worst",
        "first message to last visible: p50 ms",
        "worst",
        "table",
    )
    rows = [
        (
            str(one["run"]),
            *[f"{one['hidden_milliseconds'][name]:.0f}" if one["correct"] else "" for name in ("p50", "p90", "max")],
            *[f"{one['whole_milliseconds'][name]:,.0f}" if one["correct"] else "" for name in ("p50", "max")],
            state(one),
        )
        for one in done
    ]
    return Table(title="Bursts", columns=columns, rows=rows)


def _restarts(done: Sequence[Mapping[str, Any]]) -> Table:
    columns = (
        *("run", "first new epoch, s", "lag under 1 s, s", "as before, s"),
        *("before the kill: p50 ms", "p99 ms", "in doubt at the kill", "state"),
    )
    rows = [
        (
            str(one["run"]),
            *[_seconds(one.get(figure)) for figure in restart.FIGURES],
            *[_seconds(one.get(f"before_{name}_milliseconds"), 0) for name in ("p50", "p99")],
            str(one.get("in_doubt_at_kill", "")),
            state(one),
        )
        for one in done
    ]
    median = ("median", *map(_seconds, restart.medians(done).values()), "", "", "", "")
    return Table(title="Restarts", columns=columns, rows=[*rows, median] if len(done) > 1 else rows)


def state(one: Mapping[str, Any]) -> str:
    """`right` or `WRONG`, or the first line of the error."""
    if one.get("error"):
        return f"failed: {str(one['error']).splitlines()[0][:100]}"
    return "right" if one["correct"] else "WRONG"


def _seconds(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
