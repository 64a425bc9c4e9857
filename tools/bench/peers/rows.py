"""The text of the tables; `report` shows them on a terminal, `page` writes them as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from tools.bench.peers.goals import ELSEWHERE, Verdict, judged
from tools.bench.peers.summary import Drained, Drains, Held, Ratio, cpu, cpu_after_start, rate, rate_from_start, ratio
from tools.bench.peers.system import System
from tools.bench.results import QUIET_LOAD

_RATIOS = "medians; ratio: Surelane to the other in the same run, median, lowest and highest"

_PARTS = ("its own", "Postgres", "broker")  # in the order of `Drained.cpu`


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table; each row is as long as `columns`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def drains(found: Drains) -> Table:
    """Rates; one row for each workload and system."""
    columns = (
        *("workload", "messages", "system", "messages/s", "slowest - fastest", "from process start"),
        *("ratio", "ratio from start", "table", "others' load"),
    )
    return Table(
        title=f"Draining a backlog: {_RATIOS}", columns=columns, rows=[_drain(*pair) for pair in _pairs(found)]
    )


def costs(found: Drains) -> Table:
    """CPU seconds; one row for each workload and system."""
    columns = ("workload", "messages", "system", "together", "ratio", *_PARTS, "after the start", "ratio")
    rows = [_cost(*pair) for pair in _pairs(found) if pair[0].cpu]
    return Table(title=f"CPU seconds for a million messages: {_RATIOS}", columns=columns, rows=rows)


def goals(found: Drains) -> Table:
    """One row for each goal that can be judged."""
    rows = [_goal(verdict) for verdict in judged(found)]
    columns = ("goal", "limit", "worst", "all", "")
    return Table(title="Goals (workload uniform unless it says otherwise)", columns=columns, rows=rows)


def elsewhere() -> Table:
    """One row for each goal that other commands judge."""
    rows = [(what, limit, f"`./run {command}`") for what, limit, command in ELSEWHERE]
    return Table(
        title="Goals of Surelane alone, judged on [Costs](COSTS.md)", columns=("goal", "at most", "by"), rows=rows
    )


def latencies(found: Sequence[Held]) -> Table:
    """One row for each system and rate."""
    columns = ("system", "messages/s", "p50 ms", "p99 ms", "worst ms", "table", "others' load")
    rows = [
        (one.system, f"{one.asked_rate:,}", *map(_whole, (one.p50, one.p99, one.worst)), _state(one), _load(one))
        for one in found
    ]
    return Table(title="From the source's commit to visible, medians", columns=columns, rows=rows)


def _pairs(found: Drains) -> list[tuple[Drained, Drained | None]]:
    """Each result with the lane's for the same workload; None for the lane itself, or if one of them is wrong."""
    owns = [found.get((System.SURELANE, one.workload, one.messages)) for one in found.values()]
    return [
        (one, own if own and own is not one and own.right and one.right else None)
        for one, own in zip(found.values(), owns, strict=True)
    ]


def _drain(one: Drained, own: Drained | None) -> tuple[str, ...]:
    return (
        one.workload,
        f"{one.messages:,}",
        one.system,
        _whole(one.rate),
        f"{_whole(one.slowest)} - {_whole(one.fastest)}" if one.runs > 1 else "",
        _whole(one.rate_from_start),
        _ratio(ratio(own, one, rate) if own else None),
        _ratio(ratio(own, one, rate_from_start) if own else None),
        _state(one),
        _load(one),
    )


def _cost(one: Drained, own: Drained | None) -> tuple[str, ...]:
    compared = own if one.system is not System.CEILING else None  # it has no client process
    return (
        one.workload,
        f"{one.messages:,}",
        one.system,
        _seconds(one.cpu_total),
        _ratio(ratio(compared, one, cpu) if compared else None),
        *map(_seconds, one.cpu.values()),
        _seconds(one.cpu_after_start),
        _ratio(ratio(compared, one, cpu_after_start) if compared else None),
    )


def _goal(verdict: Verdict) -> tuple[str, ...]:
    goal = verdict.goal
    limit = f"{'at least' if goal.at_least else 'at most'} {goal.limit:g}"
    return (
        goal.what,
        limit,
        _ratio(verdict.worst),
        "; ".join(f"{what}: {_ratio(one)}" for what, one in verdict.found.items()),
        "not judged" if verdict.worst is None else "reached" if verdict.reached else "MISSED",
    )


def _state(one: Drained | Held) -> str:
    return "right" if one.right else "WRONG"


def _load(one: Drained | Held) -> str:
    return f"{one.disturbance:.1f}, noisy" if one.disturbance > QUIET_LOAD else f"{one.disturbance:.1f}"


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _ratio(found: Ratio | None) -> str:
    if found is None:
        return ""
    spread = f" ({found.lowest:.2f} - {found.highest:.2f})" if found.lowest != found.highest else ""
    return f"{found.middle:.2f}{spread}"
