"""Tables, goals and sections of the comparison; see `comparison`."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tools.bench import budget, chart
from tools.bench.page import Column, Goal, Picture, Section, Table, number
from tools.bench.summary import (
    PARTS,
    Figure,
    Group,
    Ratio,
    cell,
    cpu,
    cpu_a_gigabyte,
    cpu_after_start,
    cpu_of,
    find,
    grouped,
    median_of,
    of_field,
    rate,
    rate_from_start,
)
from tools.peers.systems import CEILING, DEBEZIUM_JDBC, FLINK_TABLE, FLINK_XA, SURELANE, SYSTEMS
from tools.testbed.workload import Kind

#: the measures
DRAIN, LATENCY = "drain", "latency"
MEASURES = (DRAIN, LATENCY)
PICTURE = "benchmarks.svg"
LEDGER = f"{SURELANE}-ledger"
_Result = Mapping[str, Any]
_Groups = Sequence[Group]
_RATIOS = "medians; ratio: Surelane to the other in the same run, median, lowest and highest"
_RATES = {"from the first row": rate, "from process start": rate_from_start}
#: fields that a group's runs have in common
_DRAINS, _HELD = ("system", "workload", "messages", "round_trip"), ("system", "asked_rate", "round_trip")
p50, p99, worst, select = (of_field(f"{name}_milliseconds") for name in ("p50", "p99", "max", "select"))


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A goal for the ratio of two drains."""

    what: str
    below: str
    limit: float
    figures: Mapping[str, Figure] = field(default_factory=lambda: _RATES)
    at_least: bool = True
    #: workload of Surelane's drain; that of the other is uniform
    workload: Kind = Kind.UNIFORM
    #: judged by the largest backlog only
    largest: bool = False


_cheaper: Callable[..., Rule] = partial(Rule, limit=0.45, figures={"": cpu}, at_least=False)
_RULES = (
    Rule(what="rate against Flink's JDBC table", below=FLINK_TABLE, limit=2.8),
    Rule(what="rate against Flink over XA", below=FLINK_XA, limit=2.5),
    Rule(what="rate against the Debezium JDBC sink", below=DEBEZIUM_JDBC, limit=3.5),
    _cheaper(what="CPU a message against Flink's JDBC table", below=FLINK_TABLE),
    _cheaper(what="CPU a message against Flink over XA", below=FLINK_XA),
    _cheaper(what="CPU a message against the Debezium JDBC sink", below=DEBEZIUM_JDBC),
    Rule(what="rate against the ceiling", below=CEILING, limit=0.6, figures={"from the first row": rate}, largest=True),
    Rule(what="rate of hot rows against uniform ones", below=SURELANE, limit=1.0, workload=Kind.HOT),
)
#: messages a second; p50 and p99 in milliseconds at each of them, by system
_LATENCY_RATES = (100, 1000)
_LATENCY_LIMITS = {SURELANE: (40.0, 100.0), LEDGER: (25.0, 70.0)}
#: milliseconds that are compared with the nearest; share of its drain, and round trips by which latency grows
FAR, FAR_SHARE, FAR_TRIPS = 2.5, 0.85, 6.0


def sections(done: Sequence[_Result], runs: int, seconds: int) -> list[Section]:
    """Of what was measured without distance, and with one."""
    near = [one for one in done if one.get("round_trip") is None]
    far = [one for one in done if one.get("round_trip") is not None]
    made: list[Section] = []
    if drains := grouped(near, DRAIN, *_DRAINS):
        counts = " and ".join(f"{count:,}" for count in dict.fromkeys(one.get("messages") for one in drains))
        text = (
            f"{counts} messages a backlog, {runs} runs. Absolute figures belong to this machine and hour; ratios are "
            f"of the same runs.{_again(near)}"
        )
        picture = Picture(PICTURE, "messages/s of each system", chart.bars(drains))
        parts = [text, picture, _drain_table(drains), _cost_table(drains), _steps(near)]
        goals = list(_of_drains(drains))
        made.append(Section(DRAIN, "Draining a backlog", parts, goals))
    if held := grouped(near, LATENCY, *_HELD):
        text = f"{seconds} s at each rate, {runs} runs, medians."
        parts = [text, Table.of("Latency", _LATENCIES, held), _budget(held), _syncs(held)]
        goals, title = list(_of_latency(held)), "From the source's commit to visible"
        made.append(Section(LATENCY, title, parts, goals))
    if far:
        drains, held = grouped(far, DRAIN, *_DRAINS), grouped(far, LATENCY, *_HELD)
        parts, goals = [_far_drains(drains), _far_latencies(held)], list(_of_distance(drains, held))
        made.append(Section("distance", "At a distance from Postgres", parts, goals))
    what = "\n".join(f"- `{one.name}`: {one.described}" for one in SYSTEMS.values())
    made.append(Section("systems", "What is compared", [what]))
    return made


def _ratio_of(drains: _Groups, figure: Figure, one: Group) -> str:
    """Surelane's to this one's; empty for itself, and if one of the two was wrong."""
    own = find(drains, system=SURELANE, workload=one.get("workload"), messages=one.get("messages"))
    if own is None or own is one or not (own.is_right and one.is_right):
        return ""
    return str(own.ratio(one, figure) or "")


def _spread(one: Group) -> str:
    rates = one.all_of(rate)
    return f"{number(min(rates))} - {number(max(rates))}" if len(rates) > 1 else ""


_BACKLOG = (("workload", cell("workload")), ("messages", cell("messages")))
_SYSTEM: Column = ("system", cell("system"))
_STATE: Column = ("table", lambda one: one.state)
_LOAD: Column = ("others' load", lambda one: one.load)


def _drain_table(drains: _Groups) -> Table:
    columns = (
        *(*_BACKLOG, _SYSTEM, ("messages/s", median_of(rate)), ("slowest - fastest", _spread)),
        ("from process start", median_of(rate_from_start)),
        ("ratio", partial(_ratio_of, drains, rate)),
        ("ratio from start", partial(_ratio_of, drains, rate_from_start)),
        *(_STATE, _LOAD),
    )
    return Table.of(f"Rates: {_RATIOS}", columns, drains)


def _cost_table(drains: _Groups) -> Table:
    def ratio(figure: Figure, one: Group) -> str:
        return "" if one.get("system") == CEILING else _ratio_of(drains, figure, one)  # it has no process

    columns = (
        *(*_BACKLOG, _SYSTEM, ("together", median_of(cpu, 1)), ("ratio", partial(ratio, cpu))),
        *zip(("its own", "Postgres", "broker"), (median_of(cpu_of(part), 1) for part in PARTS), strict=True),
        *(("after the start", median_of(cpu_after_start, 1)), ("ratio", partial(ratio, cpu_after_start))),
        ("for a GB of values", median_of(cpu_a_gigabyte, 1)),
    )
    return Table.of(f"CPU seconds for a million messages: {_RATIOS}", columns, [one for one in drains if one.by_run])


def _steps(done: Sequence[_Result]) -> Table:
    """Mean milliseconds of an epoch by step."""
    timed = [one for one in done if one.get("step_milliseconds")]
    names = dict.fromkeys(name for one in timed for name in one["step_milliseconds"])
    columns = (
        *(_SYSTEM, *_BACKLOG, ("epochs", cell("epochs"))),
        *((name, cell("step_milliseconds", name, digits=1)) for name in names),
    )
    return Table.of("An epoch of Surelane by step, mean ms", columns, timed)


def _cpu_a_second(run: _Result) -> float | None:
    """Milliseconds of CPU, all processes, in a second of the load."""
    from_rate = cpu(run)
    return from_rate * run["asked_rate"] / 1000 if from_rate is not None else None


_AT: Column = ("messages/s", cell("asked_rate"))
_LATENCIES = (
    *(_AT, _SYSTEM, ("p50 ms", median_of(p50)), ("p99 ms", median_of(p99))),
    ("worst ms", lambda one: number(max(one.all_of(worst), default=None))),
    *(("CPU ms a second", median_of(_cpu_a_second)), _STATE, _LOAD),
)
_LAST_PARTS = (budget.ENTRY, budget.COMMIT, budget.FINISH)


def _budget(held: _Groups) -> Table:
    """One row for each lane and rate: medians over the epochs."""
    timed = [run for run in _first_runs(held) if run.get("budget_milliseconds")]
    named = dict.fromkeys(name for run in timed for name in run["budget_milliseconds"] if name not in _LAST_PARTS)
    within = [name for name in named if name.startswith(budget.STAGE)]
    names = [*(name for name in named if name not in within), *_LAST_PARTS, *within]
    columns = (
        *(_AT, _SYSTEM, ("messages an epoch", cell("messages_an_epoch"))),
        *((f"{name} ms", cell("budget_milliseconds", name, digits=1)) for name in names),
        ("log syncs an epoch", cell("wal_syncs_an_epoch", digits=2)),
    )
    return Table.of("Where it goes: medians of the epochs of one run", columns, timed)


def _syncs(held: _Groups) -> Table:
    """One row for each file that a lane syncs at a rate."""
    rows = [{**run, **one, "file": file} for run in _first_runs(held) for file, one in run.get("syncs", {}).items()]
    columns = (
        *(_AT, _SYSTEM, ("file", cell("file"))),
        ("syncs an epoch", cell("an_epoch", digits=2)),
        ("ms each", cell("milliseconds", digits=2)),
    )
    return Table.of("What is synced to disk, by strace, which slows it down", columns, rows)


def _first_runs(held: _Groups) -> list[_Result]:
    return [next(iter(one.by_run.values())) for one in held if one.by_run]


#: a row of the tables of distances: groups of the same measurement, by round trip
_Away = Mapping[float, Group]


def _by_place(groups: _Groups, fields: Sequence[str]) -> list[_Away]:
    """For each value of `fields` the groups at each round trip."""
    rows: dict[tuple[Any, ...], dict[float, Group]] = {}
    for one in groups:
        rows.setdefault(tuple(one.get(name) for name in fields), {})[one.get("round_trip")] = one
    return list(rows.values())


def _far(
    title: str, groups: _Groups, known: Mapping[str, str], shown: Callable[[Group, Group | None], str], *more: Column
) -> Table:
    """A column for each round trip. `known`: fields of a row by their heads; `shown`: of a group and the nearest."""
    places = _places(groups)

    def at(place: float, row: _Away) -> str:
        one = row.get(place)
        if one is None:
            return ""
        return shown(one, row.get(places[0])) if one.is_right else "WRONG"

    columns = (
        *((head, lambda row, name=name: cell(name)(next(iter(row.values())))) for head, name in known.items()),
        *((f"{place:g} ms", partial(at, place)) for place in places),
        *more,
        ("others' load", lambda row: Group([run for one in row.values() for run in one.runs]).load),
    )
    return Table.of(title, columns, _by_place(groups, tuple(known.values())))


def _places(groups: _Groups) -> list[float]:
    """The round trips, the nearest first."""
    return sorted({one.get("round_trip") for one in groups})


def _far_drains(drains: _Groups) -> Table:
    def shown(one: Group, nearest: Group | None) -> str:
        share = None if one is nearest else one.ratio(nearest, rate)
        return number(one.median(rate)) + (f" ({share.middle:.2f})" if share else "")

    title = "Messages/s by round trip; in brackets: to the nearest, in the same run"
    return _far(title, drains, {name: name for name in _DRAINS[:3]}, shown)


def _far_latencies(held: _Groups) -> Table:
    places = _places(held)

    def grown(row: _Away) -> str:
        return ", ".join(number(_trips(row.get(place), row.get(places[0])), 1) for place in places[1:])

    table = _far(
        "Latency by round trip: p50 / p99 ms",
        held,
        {"system": "system", "messages/s": "asked_rate"},
        lambda one, _: f"{number(one.median(p50))} / {number(one.median(p99))}",
        ("p50 grows by round trips", grown),
    )
    if not held:
        return table
    at_each = [next(one for one in held if one.get("round_trip") == place) for place in places]
    direct = median_of(of_field("direct_milliseconds"), 2)(held[0])
    last = ["`SELECT 1`, ms", "", *map(median_of(select, 2), at_each), f"(directly {direct})", ""]
    return Table(table.title, table.columns, [*table.rows, last])


def _trips(one: Group | None, nearest: Group | None) -> float | None:
    """By how many round trips p50 has grown, by what `SELECT 1` takes at both places."""
    if one is None or nearest is None:
        return None
    after, before, far, near = (group.median(figure) for figure in (p50, select) for group in (one, nearest))
    if after is None or before is None or far is None or near is None or far <= near:
        return None
    return (after - before) / (far - near)


def _of_drains(drains: _Groups) -> Iterator[Goal]:
    """Those whose two sides were measured, judged by the worst of their medians."""
    counts = sorted({one.get("messages") for one in drains})
    for rule in _RULES:
        above, below = {"system": SURELANE, "workload": rule.workload}, {"system": rule.below, "workload": Kind.UNIFORM}
        both = [
            (one, other)
            for count in (counts[-1:] if rule.largest else counts)
            if (one := find(drains, **above, messages=count)) and (other := find(drains, **below, messages=count))
        ]
        if both:
            yield _judged(rule, both)


def _judged(rule: Rule, both: Sequence[tuple[Group, Group]]) -> Goal:
    ratios: dict[str, Ratio] = {}
    if all(one.is_right and other.is_right for one, other in both):
        for one, other in both:
            for name, figure in rule.figures.items():
                if ratio := one.ratio(other, figure):
                    ratios[f"{one.get('messages'):,} {name}".strip()] = ratio
    worse = min if rule.at_least else max
    found = worse((one.middle for one in ratios.values()), default=None)
    detail = "; ".join(f"{name}: {one}" for name, one in ratios.items())
    return Goal(rule.what, rule.limit, found, at_least=rule.at_least, detail=detail)


def _of_latency(held: _Groups) -> Iterator[Goal]:
    for asked, (system, limits) in itertools.product(_LATENCY_RATES, _LATENCY_LIMITS.items()):
        if one := find(held, system=system, asked_rate=asked):
            for name, figure, limit in zip(("p50", "p99"), (p50, p99), limits, strict=True):
                judged = one.median(figure) if one.is_right else None
                yield Goal(f"{system}, {asked:,}/s: {name}", limit, judged, "ms")


def _of_distance(drains: _Groups, held: _Groups) -> Iterator[Goal]:
    """Of the nearest place and FAR, where both were measured."""
    nearest = min((one.get("round_trip") for one in (*drains, *held)), default=FAR)
    if nearest >= FAR:
        return
    for row in _by_place(drains, _DRAINS[:3]):
        near, away = row.get(nearest), row.get(FAR)
        if near and away and near.get("system") == SURELANE:
            ratio = away.ratio(near, rate) if near.is_right and away.is_right else None
            backlog = f"{near.get('workload')}, {near.get('messages'):,} messages"
            what = f"drain at {FAR:g} ms to that at {nearest:g} ms: {backlog}"
            yield Goal(what, FAR_SHARE, ratio.middle if ratio else None, at_least=True)
    for row in _by_place(held, _HELD[:2]):
        near, away = row.get(nearest), row.get(FAR)
        if near and away and near.get("system") in _LATENCY_LIMITS:
            what = (
                f"p50 of {near.get('system')} at {near.get('asked_rate'):,}/s grows from {nearest:g} to {FAR:g} ms by"
            )
            judged = _trips(away, near) if near.is_right and away.is_right else None
            yield Goal(what, FAR_TRIPS, judged, "round trips")


def _again(done: Sequence[_Result]) -> str:
    again = sum(result.get("attempts", 1) > 1 for result in done)
    if not again:
        return ""
    return (
        f" Of {len(done)} measurements {again} were disturbed by more than a quarter of a processor and made again, "
        "twice at most; the quietest counts."
    )
