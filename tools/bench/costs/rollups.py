"""The cost of two rollups: pairs of drains with and without them."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tools.bench import page, results, servers
from tools.bench.costs import suite
from tools.bench.costs.axes import Case, base
from tools.bench.costs.measure import measure
from tools.bench.costs.pairs import in_turn, ratios
from tools.bench.goals import Goal
from tools.bench.goals import table as goals_table
from tools.bench.page import Section, Table
from tools.bench.peers.target import TABLE
from tools.bench.report import console, say
from tools.bench.servers import Servers
from tools.bench.short import state
from tools.bench.terminal import shown

WITH, WITHOUT = "with rollups", "without"
#: of the drain rate
LIMIT_PERCENT = 25.0
_KEYS = ("rate", "cpu_microseconds_per_message", "correct", "error")
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


def run(wanted: suite.Wanted, pairs: int) -> bool:
    """Measure; returns False if a lane failed or left a wrong table."""
    case = base(wanted.scale)
    done: list[dict[str, Any]] = []
    say("starting Kafka and Postgres")
    with servers.running(wanted.stack) as up, suite.filled(up, case) as made:
        for pair, mode in in_turn(pairs, WITH, WITHOUT, suite.describe(case)):
            done.append(_one(up, case, made, mode, pair))
    return _finished(wanted, done)


def _one(up: Servers, case: Case, made: suite.Made, mode: str, pair: int) -> dict[str, Any]:
    what = {**suite.fields(case), "mode": mode, "pair": pair}
    settings: dict[str, object] = {"rollups": ROLLUPS} if mode == WITH else {}
    found = results.tried(what, lambda: measure(up, made(), case, settings=settings))
    result = results.stamped("rollups", found)
    results.emit(result)
    say("  " + ", ".join(f"{key} {result[key]}" for key in _KEYS if key in result))
    return result


def goal(done: Sequence[Mapping[str, Any]]) -> Goal:
    """Not judged unless every drain is right."""
    rates = ratios(done, "rate", WITH, WITHOUT)
    known = rates and all(one["correct"] for one in done)
    found = round(100 * (1 - statistics.median(rates)), 1) if known else None
    return Goal(what="drain rate that two rollups cost, median of pairs", unit="%", limit=LIMIT_PERCENT, found=found)


def _finished(wanted: suite.Wanted, done: Sequence[dict[str, Any]]) -> bool:
    judged, right = goal(done), all(one["correct"] for one in done)
    results.emit(results.stamped("rollups-goals", {"goals": [judged.as_result()], "correct": right}))
    fields = {"messages/s": "rate", "CPU a message": "cpu_microseconds_per_message"}
    rows = [
        (name, str(len(found)), *(f"{value:.3f}" for value in (statistics.median(found), min(found), max(found))))
        for name, field in fields.items()
        if (found := ratios(done, field, WITH, WITHOUT))
    ]
    columns = ("ratio", "pairs", "median", "least", "most")
    tables = [Table(title="With two rollups to without", columns=columns, rows=rows), goals_table([judged])]
    for one in tables:
        console.print(shown(one))
    if wanted.report:
        wrong = [state(one) for one in done if not one["correct"]]
        text = (
            f"{done[0]['messages']:,} messages a drain, epochs of {done[0]['epoch_messages']:,}, mode two-phase, with "
            "two rollups and without, in turn; each ratio is of one pair, of what was used after a quarter of the "
            "messages. One rollup by status (count, sum, avg), one by status and second (count, sum): 60 % updates, "
            "35 % inserts, 5 % deletes."
        )
        tables_right = f"Tables: {'all right' if not wrong else ', '.join(wrong)}."
        parts = [text, tables_right, *[one.markdown() for one in tables]]
        page.put(
            wanted.report, Section(key="rollups", title="What two rollups cost", command=wanted.command, parts=parts)
        )
        say(f"written: {wanted.report}")
    return right
