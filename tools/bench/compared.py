"""Tables, goals and sections of the comparison; see `comparison`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools.bench import budget, chart
from tools.bench.goals import Goal
from tools.bench.page import Section, Table
from tools.bench.report import number, with_goals
from tools.bench.summary import (
    PARTS,
    Figure,
    Group,
    Ratio,
    cpu,
    cpu_a_gigabyte,
    cpu_after_start,
    cpu_of,
    grouped,
    of_field,
    rate,
    rate_from_start,
)
from tools.bench.systems import CEILING, DEBEZIUM_JDBC, FLINK_TABLE, FLINK_XA, SURELANE, SYSTEMS
from tools.bench.workload import Kind

#: the measures
DRAIN, LATENCY = "drain", "latency"
MEASURES = (DRAIN, LATENCY)
PICTURE = "benchmarks.svg"
LEDGER = f"{SURELANE}-ledger"
_Result = Mapping[str, Any]
_RATIOS = "medians; ratio: Surelane to the other in the same run, median, lowest and highest"
_RATES = {"from the first row": rate, "from process start": rate_from_start}
_DRAINS = ("system", "workload", "messages", "round_trip")
_HELD = ("system", "asked_rate", "round_trip")
p50, p99, worst = (of_field(f"{name}_milliseconds") for name in ("p50", "p99", "max"))

#: what, system, other, limit, at least, figures; workload uniform
_AGAINST: Sequence[tuple[str, str, float, bool, Mapping[str, Figure]]] = (
    ("rate against Flink's JDBC table", FLINK_TABLE, 2.8, True, _RATES),
    ("rate against Flink over XA", FLINK_XA, 2.5, True, _RATES),
    ("rate against the Debezium JDBC sink", DEBEZIUM_JDBC, 3.5, True, _RATES),
    ("CPU a message against Flink's JDBC table", FLINK_TABLE, 0.45, False, {"": cpu}),
    ("CPU a message against Flink over XA", FLINK_XA, 0.45, False, {"": cpu}),
    ("CPU a message against the Debezium JDBC sink", DEBEZIUM_JDBC, 0.45, False, {"": cpu}),
)
#: least share of its rate, with the largest backlog
_CEILING_SHARE = 0.6
#: milliseconds at a rate, by system
_LATENCY_RATE = 1000
_LATENCY_LIMITS = {SURELANE: (40.0, 100.0), LEDGER: (25.0, 70.0)}
#: milliseconds that are compared with the nearest; share of its drain, and round trips by which latency grows
FAR, FAR_SHARE, FAR_TRIPS = 2.5, 0.85, 6.0

_Drains = Mapping[tuple[Any, ...], Group]


def goals(done: Sequence[_Result]) -> list[Goal]:
    """Of everything that was measured."""
    near = [one for one in done if one.get("round_trip") is None]
    return [*_of_drains(near), *_of_latency(near), *_of_distance(done)]


def sections(done: Sequence[_Result], messages: Sequence[int], runs: int, seconds: int) -> list[Section]:
    """Of what was measured without distance, and with one."""
    near = [one for one in done if one.get("round_trip") is None]
    far = [one for one in done if one.get("round_trip") is not None]
    made: list[Section] = []
    if drained := grouped(near, DRAIN, *_DRAINS):
        counts = " and ".join(f"{count:,}" for count in messages)
        parts = (
            f"{counts} messages a backlog, {runs} runs. Absolute figures belong to this machine and hour; ratios are "
            f"of the same runs.{_again(near)}",
            f"![messages/s of each system]({PICTURE})",
            *[table for table in (_drain_table(drained), _cost_table(drained)) if table.rows],
            *[table for table in [_steps(near)] if table.rows],
        )
        judged = [*_of_drains(near)]
        made.append(Section(key=DRAIN, title="Draining a backlog", parts=with_goals(parts, judged)))
    if held := grouped(near, LATENCY, *_HELD):
        parts = (f"{seconds} s at each rate, {runs} runs, medians.", _latency_table(held), _budget(held), _syncs(held))
        parts = [part for part in parts if not isinstance(part, Table) or part.rows]
        judged = [*_of_latency(near)]
        made.append(Section(key=LATENCY, title="From the source's commit to visible", parts=with_goals(parts, judged)))
    if far:
        tables = [table for table in (_far_drains(far), _far_latencies(far)) if table.rows]
        parts = with_goals(tables, [*_of_distance(far)])
        made.append(Section(key="distance", title="At a distance from Postgres", parts=parts))
    what = "\n".join(f"- `{one.name}`: {one.described}" for one in SYSTEMS.values())
    made.append(Section(key="systems", title="What is compared", parts=[what]))
    return made


def picture(done: Sequence[_Result]) -> str | None:
    """Of the drains, as SVG."""
    drained = grouped([one for one in done if one.get("round_trip") is None], DRAIN, *_DRAINS)
    return chart.bars(drained) if drained else None


def _drain_table(found: _Drains) -> Table:
    columns = (
        *("workload", "messages", "system", "messages/s", "slowest - fastest", "from process start"),
        *("ratio", "ratio from start", "table", "others' load"),
    )
    rows: list[Sequence[str]] = []
    for (system, workload, messages, _), one in found.items():
        rates, own = one.all_of(rate), _own(found, workload, messages, one)
        spread = f"{number(min(rates))} - {number(max(rates))}" if len(rates) > 1 else ""
        rows.append(
            (
                *(workload, f"{messages:,}", system, number(one.median(rate)), spread),
                number(one.median(rate_from_start)),
                *(_ratio(own, one, figure) for figure in (rate, rate_from_start)),
                *(one.state, one.load),
            )
        )
    return Table(title=f"Rates: {_RATIOS}", columns=columns, rows=rows)


def _cost_table(found: _Drains) -> Table:
    columns = (
        *("workload", "messages", "system", "together", "ratio", "its own", "Postgres", "broker"),
        *("after the start", "ratio", "for a GB of values"),
    )
    rows: list[Sequence[str]] = []
    for (system, workload, messages, _), one in found.items():
        own = _own(found, workload, messages, one) if system != CEILING else None  # it has no process
        if one.by_run:
            rows.append(
                (
                    *(workload, f"{messages:,}", system, number(one.median(cpu), 1), _ratio(own, one, cpu)),
                    *(number(one.median(cpu_of(part)), 1) for part in PARTS),
                    *(number(one.median(cpu_after_start), 1), _ratio(own, one, cpu_after_start)),
                    number(one.median(cpu_a_gigabyte), 1),
                )
            )
    return Table(title=f"CPU seconds for a million messages: {_RATIOS}", columns=columns, rows=rows)


def _steps(done: Sequence[_Result]) -> Table:
    """Mean milliseconds of an epoch by step."""
    timed = [one for one in done if one.get("step_milliseconds")]
    names = list(dict.fromkeys(name for one in timed for name in one["step_milliseconds"]))
    rows = [
        (
            *(one["system"], one["workload"], f"{one['messages']:,}", f"{one['epochs']}"),
            *(number(one["step_milliseconds"].get(name), 1) for name in names),
        )
        for one in timed
    ]
    return Table(
        title="An epoch of Surelane by step, mean ms", columns=("system", "workload", "messages", "epochs", *names),
        rows=rows,
    )  # fmt: skip


def _latency_table(found: _Drains) -> Table:
    columns = ("messages/s", "system", "p50 ms", "p99 ms", "worst ms", "CPU ms a second", "table", "others' load")
    rows = [
        (
            *(f"{asked:,}", system, *(number(one.median(figure)) for figure in (p50, p99))),
            number(max(one.all_of(worst), default=None)),
            *(number(one.median(_cpu_a_second)), one.state, one.load),
        )
        for (system, asked, _), one in found.items()
    ]
    return Table(title="Latency", columns=columns, rows=rows)


def _cpu_a_second(run: _Result) -> float | None:
    """Milliseconds of CPU, all processes, in a second of the load."""
    from_rate = cpu(run)
    return from_rate * run["asked_rate"] / 1000 if from_rate is not None else None


def _budget(found: _Drains) -> Table:
    """One row for each lane and rate: medians over the epochs."""
    runs = [next(iter(one.by_run.values()), None) for one in found.values()]
    timed = [run for run in runs if run and run.get("budget_milliseconds")]
    named = dict.fromkeys(name for run in timed for name in run["budget_milliseconds"] if name not in _LAST_PARTS)
    within = [name for name in named if name.startswith(budget.STAGE)]
    names = [name for name in named if name not in within] + list(_LAST_PARTS) + within
    rows = [
        (
            *(f"{run['asked_rate']:,}", run["system"], number(run["messages_an_epoch"])),
            *(number(run["budget_milliseconds"].get(name), 1) for name in names),
            number(run["wal_syncs_an_epoch"], 2),
        )
        for run in timed
    ]
    columns = ("messages/s", "system", "messages an epoch", *(f"{name} ms" for name in names), "log syncs an epoch")
    return Table(title="Where it goes: medians of the epochs of one run", columns=columns, rows=rows)


def _syncs(found: _Drains) -> Table:
    """One row for each file that a lane syncs at a rate."""
    rows = [
        (f"{run['asked_rate']:,}", run["system"], name, number(one["an_epoch"], 2), number(one["milliseconds"], 2))
        for group in found.values()
        for run in [next(iter(group.by_run.values()), {})]
        for name, one in run.get("syncs", {}).items()
    ]
    columns = ("messages/s", "system", "file", "syncs an epoch", "ms each")
    return Table(title="What is synced to disk, by strace, which slows it down", columns=columns, rows=rows)


_LAST_PARTS = (budget.ENTRY, budget.COMMIT, budget.FINISH)


def _far_drains(done: Sequence[_Result]) -> Table:
    found = grouped(done, DRAIN, *_DRAINS)
    places = sorted({key[3] for key in found})
    rows: list[Sequence[str]] = []
    for system, workload, messages in dict.fromkeys(key[:3] for key in found):
        groups = [found.get((system, workload, messages, place)) for place in places]
        nearest = groups[0]
        cells = [
            f"{number(one.median(rate))}{_share(one, nearest)}" if one and one.is_right else "WRONG" if one else ""
            for one in groups
        ]
        rows.append((system, workload, f"{messages:,}", *cells, _worst_load(groups)))
    columns = ("system", "workload", "messages", *_headed(places), "others' load")
    return Table(
        title="Messages/s by round trip; in brackets: to the nearest, in the same run", columns=columns, rows=rows
    )


def _far_latencies(done: Sequence[_Result]) -> Table:
    found = grouped(done, LATENCY, *_HELD)
    places = sorted({key[2] for key in found})
    rows: list[Sequence[str]] = []
    for system, asked in dict.fromkeys(key[:2] for key in found):
        groups = [found.get((system, asked, place)) for place in places]
        cells = [
            f"{number(one.median(p50))} / {number(one.median(p99))}" if one and one.is_right else "WRONG" if one else ""
            for one in groups
        ]
        grown = [number(_trips(one, groups[0]), 1) for one in groups[1:]]
        rows.append((system, f"{asked:,}", *cells, ", ".join(grown), _worst_load(groups)))
    columns = ("system", "messages/s", *_headed(places), "p50 grows by round trips", "others' load")
    selected = [one.median(of_field("select_milliseconds")) for place in places if (one := _any_at(found, place))]
    if rows:
        direct = next(iter(found.values())).median(of_field("direct_milliseconds"))
        measured = f"(directly {number(direct, 2)})"
        rows.append(("`SELECT 1`, ms", "", *(number(one, 2) for one in selected), measured, ""))
    return Table(title="Latency by round trip: p50 / p99 ms", columns=columns, rows=rows)


def _any_at(found: _Drains, place: float) -> Group | None:
    return next((one for key, one in found.items() if key[-1] == place), None)


def _headed(places: Sequence[float]) -> list[str]:
    return [f"{place:g} ms" for place in places]


def _share(one: Group, nearest: Group | None) -> str:
    if nearest is None or nearest is one or (found := one.ratio(nearest, rate)) is None:
        return ""
    return f" ({found.middle:.2f})"


def _worst_load(groups: Sequence[Group | None]) -> str:
    return Group([run for one in groups if one for run in one.runs]).load


def _trips(one: Group | None, nearest: Group | None) -> float | None:
    """By how many round trips p50 has grown, by what `SELECT 1` takes at both places."""
    select = of_field("select_milliseconds")
    if one is None or nearest is None:
        return None
    found = [(group.median(p50), group.median(select)) for group in (one, nearest)]
    (after, far), (before, near) = found
    if after is None or before is None or far is None or near is None or far <= near:
        return None
    return (after - before) / (far - near)


def _own(found: _Drains, workload: str, messages: int, one: Group) -> Group | None:
    """Surelane's, to be compared with; None for itself, or if one of the two was wrong."""
    own = found.get((SURELANE, workload, messages, None))
    return own if own and own is not one and own.is_right and one.is_right else None


def _ratio(own: Group | None, one: Group, figure: Figure) -> str:
    found = own.ratio(one, figure) if own else None
    return "" if found is None else str(found)


def _of_drains(done: Sequence[_Result]) -> Iterator[Goal]:
    """Those whose two sides were measured, judged by the worst of their medians."""
    found = grouped(done, DRAIN, *_DRAINS)
    for what, other, limit, at_least, figures in _AGAINST:
        yield from _against(found, what, (SURELANE, Kind.UNIFORM), (other, Kind.UNIFORM), limit, at_least, figures)
    hot, uniform, ceiling = (SURELANE, Kind.HOT), (SURELANE, Kind.UNIFORM), (CEILING, Kind.UNIFORM)
    most = max((key[2] for key in found), default=0)
    largest = {key: group for key, group in found.items() if key[2] == most}
    figures = {"from the first row": rate}
    yield from _against(largest, "rate against the ceiling", uniform, ceiling, _CEILING_SHARE, True, figures)
    yield from _against(found, "rate of hot rows against uniform ones", hot, uniform, 1.0, True, _RATES)


def _against(
    found: _Drains,
    what: str,
    above: tuple[str, Kind],
    below: tuple[str, Kind],
    limit: float,
    at_least: bool,
    figures: Mapping[str, Figure],
) -> Iterator[Goal]:
    counts = sorted({key[2] for key in found})
    sides = {count: (found.get((*above, count, None)), found.get((*below, count, None))) for count in counts}
    known = {count: (one, other) for count, (one, other) in sides.items() if one and other}
    if not known:
        return
    ratios: dict[str, Ratio] = {}
    if all(one.is_right and other.is_right for one, other in known.values()):
        for count, (one, other) in known.items():
            for name, figure in figures.items():
                if (ratio := one.ratio(other, figure)) is not None:
                    ratios[f"{count:,} {name}".strip()] = ratio
    worse = min if at_least else max
    judged = worse((one.middle for one in ratios.values()), default=None)
    detail = "; ".join(f"{name}: {one}" for name, one in ratios.items())
    yield Goal(what=what, limit=limit, found=judged, at_least=at_least, detail=detail)


def _of_latency(done: Sequence[_Result]) -> Iterator[Goal]:
    found = grouped(done, LATENCY, *_HELD)
    for system, limits in _LATENCY_LIMITS.items():
        if one := found.get((system, _LATENCY_RATE, None)):
            for name, figure, limit in zip(("p50", "p99"), (p50, p99), limits, strict=True):
                judged = one.median(figure) if one.is_right else None
                yield Goal(what=f"{system}, {_LATENCY_RATE:,}/s: {name}", unit="ms", limit=limit, found=judged)


def _of_distance(done: Sequence[_Result]) -> Iterator[Goal]:
    """Of the nearest place and FAR, where both were measured."""
    far = [one for one in done if one.get("round_trip") is not None]
    nearest = min((one["round_trip"] for one in far), default=FAR)
    if nearest >= FAR:
        return
    drained, held = grouped(far, DRAIN, *_DRAINS), grouped(far, LATENCY, *_HELD)
    for system, workload, messages in dict.fromkeys(key[:3] for key in drained if key[0] == SURELANE):
        near, away = (drained.get((system, workload, messages, place)) for place in (nearest, FAR))
        if near and away:
            ratio = away.ratio(near, rate) if near.is_right and away.is_right else None
            what = f"drain at {FAR:g} ms to that at {nearest:g} ms: {workload}, {messages:,} messages"
            judged = None if ratio is None else ratio.middle
            yield Goal(what=what, limit=FAR_SHARE, found=judged, at_least=True)
    for system, asked in dict.fromkeys(key[:2] for key in held if key[0] in _LATENCY_LIMITS):
        near, away = (held.get((system, asked, place)) for place in (nearest, FAR))
        if near and away:
            judged = _trips(away, near) if near.is_right and away.is_right else None
            what = f"p50 of {system} at {asked:,}/s grows from {nearest:g} to {FAR:g} ms by"
            yield Goal(what=what, unit="round trips", limit=FAR_TRIPS, found=judged)


def _again(done: Sequence[_Result]) -> str:
    again = sum(result.get("attempts", 1) > 1 for result in done)
    if not again:
        return ""
    return (
        f" Of {len(done)} measurements {again} were disturbed by more than a quarter of a processor and made again, "
        "twice at most; the quietest counts."
    )
