"""The cost of a message and a byte as one dimension at a time grows, on a backlog that is created just before its first
case and deleted after its last."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any

from tools.bench import ceiling, drain, results
from tools.bench.axes import AXES, BASE_EPOCH, BASE_EPOCH_BYTES, Case, cost, growth, memory
from tools.bench.groups import LOAD, Group, cell, find, grouped, median_of, of_field, rate
from tools.bench.page import Column, Section, Table, number
from tools.bench.plan import Plan
from tools.bench.results import Result, Task
from tools.devstack.sections import merged
from tools.peers.lane import PARTS
from tools.peers.systems import CEILING, SURELANE, System, of_lane
from tools.testbed import backlog
from tools.testbed.backlog import Backlog
from tools.testbed.servers import Servers

#: share of the messages that is not counted, while Spark compiles and the JVM warms up
WARM_SHARE = 0.25
#: bytes of disk that must stay free
_SPARE = 4 << 30
#: bytes of a message, unless its rows are long
_USUAL_BYTES = 900
#: creates the backlog at the first call
Made = Callable[[], Backlog]


def system(case: Case, settings: Mapping[str, object] | None = None, **options: Any) -> System:
    """A lane with epochs as the case has them; `settings` override its configuration."""
    epoch = {"epoch": {"max_messages": case.epoch, "max_bytes": case.epoch_bytes}}
    return of_lane(SURELANE, settings=merged(epoch, settings or {}), **options)


@contextmanager
def filled(up: Servers, case: Case, *chunks: int) -> Iterator[Made]:
    """A function that creates the case's backlog at its first call, for the ceiling in chunks of so many messages. It
    raises RuntimeError if the disk is too small. The end of the block deletes the backlog."""

    @cache
    def made() -> Backlog:
        need = case.messages * max(_USUAL_BYTES, 3 * (case.shape.row_bytes or 0)) + _SPARE
        free = shutil.disk_usage(up.data_dir).free
        if free < need:
            what = f"{free >> 20} MB are free at {up.data_dir}, {need >> 20} are needed"
            raise RuntimeError(f"{what}: choose a smaller --scale")
        return backlog.prepare(up, case.shape, case.messages, chunks)

    try:
        yield made
    finally:
        if made.cache_info().currsize:
            with suppress(*results.FAILURES):
                backlog.forget(up, made())


def tasks(plan: Plan, up: Servers) -> Iterator[Task]:
    """Of each backlog all cases, each with the ceiling where an axis has one."""
    cases = {name: AXES[name].cases(plan.scale) for name in plan.axes}
    ceilings = {case for name, found in cases.items() if AXES[name].has_ceiling for case in found}
    by_backlog: dict[object, list[Case]] = {}
    for case in dict.fromkeys(case for found in cases.values() for case in found):
        by_backlog.setdefault((case.shape, case.messages), []).append(case)
    for same in by_backlog.values():
        chunks = {case.chunk for case in same if case in ceilings}
        assert len(chunks) < 2, "cases that share a backlog share its chunks"
        with filled(up, same[0], *chunks) as made:
            for run in plan.numbers:
                for case in same:
                    what = {**case.fields, "run": run}
                    yield Task({"system": SURELANE, **what}, partial(_drained, up, case, made))
                    if case in ceilings:
                        yield Task({"system": CEILING, **what}, partial(_alone, up, made))


def _drained(up: Servers, case: Case, made: Made) -> dict[str, Any]:
    return drain.measure(up, made(), system(case), WARM_SHARE)


def _alone(up: Servers, made: Made) -> dict[str, Any]:
    return {"value_bytes": made().value_bytes, **ceiling.measure(up, made())}


def sections(plan: Plan, done: Sequence[Result]) -> Iterator[Section]:
    """One of each axis: a row for each size, and whether the cost grows."""
    for name in plan.axes:
        yield section(name, AXES[name].cases(plan.scale), done)


def section(name: str, cases: Sequence[Case], done: Sequence[Result]) -> Section:
    axis = AXES[name]
    found = [grouped([one for one in done if case.fields.items() <= one.items()], "system") for case in cases]
    sizes = [(lane, find(same, system=CEILING)) for same in found if (lane := find(same, system=SURELANE))]
    figures = (("messages/s", rate, 0), ("CPU µs a message", cost("message"), 1), ("CPU ms a MB", cost("byte"), 1))
    measured: Sequence[Column] = [(head, median_of(figure, digits)) for head, figure, digits in figures]
    of_lane: Sequence[Column] = (
        (name, cell(axis.field)),
        *([("messages", cell("messages"))] if axis.field != "messages" else []),
        ("bytes a message", median_of(lambda run: run["value_bytes"] / run["messages"])),
        *(("epochs", median_of(of_field("epochs"))), *measured),
        *((f"{part} MB", partial(_peak, part)) for part in (*PARTS, "tasks")),
        LOAD,
    )
    columns: Sequence[Column] = (
        *((head, lambda size, shown=shown: shown(size[0])) for head, shown in of_lane),
        *(
            (f"ceiling: {head}", lambda size, shown=shown: shown(size[1]) if size[1] else "")
            for head, shown in measured
            if axis.has_ceiling
        ),
        ("table", lambda size: next((one.state for one in size if one and not one.is_right), "right")),
    )
    text = f"Epochs of {BASE_EPOCH:,} messages and {BASE_EPOCH_BYTES >> 20} MB at most, unless stated otherwise."
    goals = [growth(name, sizes), *memory([lane for lane, _ in sizes])]
    parts = [text, Table.of("Sizes", columns, sizes)]
    return Section(f"costs-{name}", f"What a message costs, by {name}", parts, goals)


def _peak(part: str, one: Group) -> str:
    return number(max(one.all_of(of_field("peak_megabytes", part)), default=None))
