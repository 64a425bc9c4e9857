"""Tables and goals of latency: beside each other, and at a distance."""

import itertools
from collections.abc import Iterator, Sequence

from tools.bench import budget
from tools.bench.groups import (
    LOAD,
    STATE,
    SYSTEM,
    Group,
    cell,
    cpu,
    find,
    grouped,
    median_of,
    near_and_far,
    nearest,
    of_field,
)
from tools.bench.page import Column, Goal, Section, Table, number
from tools.bench.plan import FAR, Plan
from tools.bench.results import Result
from tools.peers.systems import LEDGER, SURELANE

_Groups = Sequence[Group]
#: messages a second; p50 and p99 in milliseconds at each of them, by system
RATES = (100, 1000)
LIMITS = {SURELANE: (40.0, 100.0), LEDGER: (25.0, 70.0)}
#: round trips by which p50 grows to FAR
FAR_TRIPS = 6.0
#: milliseconds that the last epoch is hidden after its checkpoint entry, in the worst run
HIDDEN_LIMIT = 300.0
p50, p99, worst, select = (of_field(f"{name}_milliseconds") for name in ("p50", "p99", "max", "select"))


def sections(plan: Plan, done: Sequence[Result]) -> Iterator[Section]:
    held = grouped(done, "system", "asked_rate", "round_trip")
    near, far = near_and_far(held)
    if near:
        text = f"{plan.seconds} s at each rate, medians; runs: {max(len(one.runs) for one in near)}."
        parts = [text, Table.of("Latency", _COLUMNS, near), _budget(near), _syncs(near)]
        yield Section("latency", "From the source's commit to visible", parts, list(_goals(near)))
    if far:
        columns = (
            *(SYSTEM, _AT, ("round trip ms", cell("round_trip", digits=1)), ("`SELECT 1` ms", median_of(select, 2))),
            *(("p50 ms", median_of(p50)), ("p99 ms", median_of(p99))),
            ("p50 grows by round trips", lambda one: number(_trips(one, nearest(far, one, *_SAME)), 1)),
            *(STATE, LOAD),
        )
        table = Table.of("Latency by round trip", columns, far)
        yield Section("latency-distance", "Latency at a distance", [table], list(_far_goals(far)))


def _cpu_a_second(run: Result) -> float | None:
    """Milliseconds of CPU, all processes, in a second of the load."""
    from_rate = cpu(run)
    return from_rate * run["asked_rate"] / 1000 if from_rate is not None else None


_SAME = ("system", "asked_rate")
_AT: Column = ("messages/s", cell("asked_rate"))
_COLUMNS = (
    *(_AT, SYSTEM, ("p50 ms", median_of(p50)), ("p99 ms", median_of(p99))),
    ("worst ms", lambda one: number(max(one.all_of(worst), default=None))),
    *(("CPU ms a second", median_of(_cpu_a_second)), STATE, LOAD),
)
_LAST_PARTS = (budget.ENTRY, budget.COMMIT, budget.FINISH)


def _budget(held: _Groups) -> Table:
    """One row for each lane and rate: medians over the epochs."""
    timed = [run for run in _first_runs(held) if run.get("budget_milliseconds")]
    named = dict.fromkeys(name for run in timed for name in run["budget_milliseconds"] if name not in _LAST_PARTS)
    within = [name for name in named if name.startswith(budget.STAGE)]
    names = [*(name for name in named if name not in within), *_LAST_PARTS, *within]
    columns = (
        *(_AT, SYSTEM, ("messages an epoch", cell("messages_an_epoch"))),
        *((f"{name} ms", cell("budget_milliseconds", name, digits=1)) for name in names),
        ("log syncs an epoch", cell("wal_syncs_an_epoch", digits=2)),
    )
    return Table.of("Where it goes: medians of the epochs of one run", columns, timed)


def _syncs(held: _Groups) -> Table:
    """One row for each file that a lane syncs at a rate."""
    rows = [{**run, **one, "file": file} for run in _first_runs(held) for file, one in run.get("syncs", {}).items()]
    columns = (
        *(_AT, SYSTEM, ("file", cell("file"))),
        ("syncs an epoch", cell("an_epoch", digits=2)),
        ("ms each", cell("milliseconds", digits=2)),
    )
    return Table.of("What is synced to disk, by strace, which slows it down", columns, rows)


def _first_runs(held: _Groups) -> list[Result]:
    return [next(iter(one.by_run.values())) for one in held if one.by_run]


def _goals(held: _Groups) -> Iterator[Goal]:
    for asked, (system, limits) in itertools.product(RATES, LIMITS.items()):
        if one := find(held, system=system, asked_rate=asked):
            for name, figure, limit in zip(("p50", "p99"), (p50, p99), limits, strict=True):
                judged = one.median(figure) if one.is_right else None
                yield Goal(f"{system}, {asked:,}/s: {name}", limit, judged, "ms")
    if hidden := [found for one in held for found in one.all_of(of_field("last_hidden_milliseconds"))]:
        yield Goal("the last epoch visible after its checkpoint entry, worst", HIDDEN_LIMIT, max(hidden), "ms")


def _trips(one: Group, near: Group) -> float | None:
    """By how many round trips p50 has grown, by what `SELECT 1` takes at both places."""
    after, before, far, close = (group.judged(figure) for figure in (p50, select) for group in (one, near))
    if after is None or before is None or far is None or close is None or far <= close:
        return None
    return (after - before) / (far - close)


def _far_goals(held: _Groups) -> Iterator[Goal]:
    for one in held:
        near = nearest(held, one, *_SAME)
        if one.get("system") in LIMITS and one.get("round_trip") == FAR and near is not one:
            at = f"{one.get('system')} at {one.get('asked_rate'):,}/s"
            what = f"p50 of {at} grows from {near.get('round_trip'):g} to {FAR:g} ms by"
            yield Goal(what, FAR_TRIPS, _trips(one, near), "round trips")
