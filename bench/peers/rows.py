"""What the tables say, as text; `report` shows it on a terminal, `page` writes it as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.peers.goals import Verdict, judged
from bench.peers.summary import Drained, Drains, Held, ratio
from bench.peers.system import System
from bench.results import QUIET_LOAD


@dataclass(frozen=True, kw_only=True)
class Table:
    """A title, the names of the columns, and rows as long as those."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def drains(found: Drains) -> Table:
    """One row for each workload and system."""
    columns = (
        *("workload", "system", "messages/s", "slowest - fastest", "from process start"),
        *("ratio", "ratio from start", "CPU s per 1M", "client / Postgres / broker", "CPU ratio", "table"),
    )
    rows = [_drain(one, found.get((System.SURELANE, one.workload))) for one in found.values()]
    return Table(
        title="Draining one backlog: medians; ratios are Surelane divided by the other", columns=columns, rows=rows
    )


def goals(found: Drains) -> Table:
    """One row for each goal that can be judged."""
    rows = [_goal(verdict) for verdict in judged(found)]
    columns = ("goal", "limit", "found", "from process start", "")
    return Table(title="Goals (workload uniform unless it says otherwise)", columns=columns, rows=rows)


def latencies(found: Sequence[Held]) -> Table:
    """One row for each system and rate."""
    columns = ("system", "messages/s", "p50 ms", "p99 ms", "worst ms", "table")
    rows = [
        (one.system, f"{one.asked_rate:,}", *map(_whole, (one.p50, one.p99, one.worst)), _state(one)) for one in found
    ]
    return Table(title="From the source's commit to visible, medians", columns=columns, rows=rows)


def _drain(one: Drained, own: Drained | None) -> tuple[str, ...]:
    compared = own if own and own.system is not one.system and own.right and one.right else None
    rate = from_start = cpu = None
    if compared:
        rate, from_start = ratio(compared.rate, one.rate), ratio(compared.rate_from_start, one.rate_from_start)
        cpu = ratio(compared.cpu_total, one.cpu_total) if one.system is not System.CEILING else None
    return (
        one.workload,
        one.system,
        _whole(one.rate),
        f"{_whole(one.slowest)} - {_whole(one.fastest)}" if one.slowest else "",
        _whole(one.rate_from_start),
        _ratio(rate),
        _ratio(from_start),
        "" if one.cpu_total is None else f"{one.cpu_total:.1f}",
        " / ".join(f"{seconds:.1f}" for seconds in one.cpu.values()),
        _ratio(cpu),
        _state(one),
    )


def _goal(verdict: Verdict) -> tuple[str, ...]:
    goal = verdict.goal
    limit = f"{'at least' if goal.at_least else 'at most'} {goal.limit:g}"
    return (
        goal.what,
        limit,
        _ratio(verdict.found),
        _ratio(verdict.from_start),
        "not judged" if verdict.found is None else "reached" if verdict.reached else "MISSED",
    )


def _state(one: Drained | Held) -> str:
    words = "right" if one.right else "WRONG"
    return f"{words}, noisy ({one.other_load:.1f})" if one.other_load > QUIET_LOAD else words


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
