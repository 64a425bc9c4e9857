"""Tables and goals of drains: beside each other, and at a distance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tools.bench.groups import (
    LOAD,
    PARTS,
    STATE,
    SYSTEM,
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
    near_and_far,
    nearest,
    rate,
    rate_from_start,
    spread_of,
)
from tools.bench.page import Goal, Section, Table, bar
from tools.bench.plan import FAR, Plan
from tools.bench.results import Result
from tools.peers.systems import CEILING, DEBEZIUM_JDBC, FLINK_TABLE, FLINK_XA, SURELANE
from tools.testbed.workload import Kind

_Groups = Sequence[Group]
_RATIOS = "medians; ratio: Surelane to the other in the same run, median, lowest and highest"
_RATES = {"from the first row": rate, "from process start": rate_from_start}
#: share of the nearest drain, at FAR
FAR_SHARE = 0.85


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


def sections(_: Plan, done: Sequence[Result]) -> Iterator[Section]:
    drains = grouped(done, "system", "workload", "messages", "round_trip")
    near, far = near_and_far(drains)
    if near:
        counts = " and ".join(f"{count:,}" for count in dict.fromkeys(one.get("messages") for one in near))
        text = (
            f"{counts} messages a backlog; runs: {max(len(one.runs) for one in near)}. Absolute figures belong to this "
            f"machine and hour; ratios are of the same runs."
        )
        parts = [text, _rate_table(near), _cost_table(near), _steps(near)]
        yield Section("drain", "Draining a backlog", parts, list(_goals(near)))
    if far:
        columns = (
            *(SYSTEM, *_BACKLOG, ("round trip ms", cell("round_trip", digits=1)), ("messages/s", median_of(rate))),
            *(("to the nearest, in the same run", lambda one: str(_to_nearest(far, one) or "")), STATE, LOAD),
        )
        table = Table.of("Messages/s by round trip", columns, far)
        yield Section("drain-distance", "Draining at a distance", [table], list(_far_goals(far)))


def _ratio_of(drains: _Groups, figure: Figure, one: Group) -> str:
    """Surelane's to this one's; empty for itself, and if one of the two was wrong."""
    own = find(drains, system=SURELANE, workload=one.get("workload"), messages=one.get("messages"))
    return "" if own is None or own is one else str(own.right_ratio(one, figure) or "")


_BACKLOG = (("workload", cell("workload")), ("messages", cell("messages")))


def _rate_table(drains: _Groups) -> Table:
    most = max((found for one in drains if (found := one.median(rate))), default=1.0)
    columns = (
        *(*_BACKLOG, SYSTEM, ("messages/s", median_of(rate)), ("", lambda one: bar(one.median(rate), most))),
        ("slowest - fastest", spread_of(rate)),
        ("from process start", median_of(rate_from_start)),
        ("ratio", partial(_ratio_of, drains, rate)),
        ("ratio from start", partial(_ratio_of, drains, rate_from_start)),
        *(STATE, LOAD),
    )
    return Table.of(f"Rates: {_RATIOS}", columns, drains)


def _cost_table(drains: _Groups) -> Table:
    def ratio(figure: Figure, one: Group) -> str:
        return "" if one.get("system") == CEILING else _ratio_of(drains, figure, one)  # it has no process

    columns = (
        *(*_BACKLOG, SYSTEM, ("together", median_of(cpu, 1)), ("ratio", partial(ratio, cpu))),
        *zip(("its own", "Postgres", "broker"), (median_of(cpu_of(part), 1) for part in PARTS), strict=True),
        *(("after the start", median_of(cpu_after_start, 1)), ("ratio", partial(ratio, cpu_after_start))),
        ("for a GB of values", median_of(cpu_a_gigabyte, 1)),
    )
    return Table.of(f"CPU seconds for a million messages: {_RATIOS}", columns, [one for one in drains if one.by_run])


def _steps(drains: _Groups) -> Table:
    """Mean milliseconds of an epoch by step, of each run."""
    timed = [run for one in drains for run in one.runs if run.get("step_milliseconds")]
    names = dict.fromkeys(name for one in timed for name in one["step_milliseconds"])
    columns = (
        *(SYSTEM, *_BACKLOG, ("epochs", cell("epochs"))),
        *((name, cell("step_milliseconds", name, digits=1)) for name in names),
    )
    return Table.of("An epoch of Surelane by step, mean ms", columns, timed)


def _goals(drains: _Groups) -> Iterator[Goal]:
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


def _to_nearest(drains: _Groups, one: Group) -> Ratio | None:
    near = nearest(drains, one, "system", "workload", "messages")
    return None if one is near else one.right_ratio(near, rate)


def _far_goals(drains: _Groups) -> Iterator[Goal]:
    for one in drains:
        near = nearest(drains, one, "system", "workload", "messages")
        if one.get("system") == SURELANE and one.get("round_trip") == FAR and near is not one:
            backlog = f"{one.get('workload')}, {one.get('messages'):,} messages"
            what = f"drain at {FAR:g} ms to that at {near.get('round_trip'):g} ms: {backlog}"
            ratio = _to_nearest(drains, one)
            yield Goal(what, FAR_SHARE, ratio.middle if ratio else None, at_least=True)
