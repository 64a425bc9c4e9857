"""The cost of a message and a byte as one dimension at a time grows: each case once a run, on a backlog that is created
just before its first case and deleted after its last."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any

from tools.bench import ceiling, drain, results
from tools.bench.axes import BASE_EPOCH, BASE_EPOCH_BYTES, CEILINGS, FIGURES, Axis, Case, axes, growth, memory
from tools.bench.page import Column, Section, Table, number
from tools.bench.report import Measure
from tools.bench.results import Result, Task
from tools.bench.summary import Group, cell, median_of, of_field, rate
from tools.devstack.sections import merged
from tools.peers.lane import PARTS
from tools.peers.systems import SURELANE, System, of_lane
from tools.testbed import backlog
from tools.testbed.backlog import Backlog
from tools.testbed.servers import Servers
from tools.testbed.workload import Shape

#: share of the messages that is not counted, while Spark compiles and the JVM warms up
WARM_SHARE = 0.25
#: bytes of disk that must stay free
_SPARE = 4 << 30
#: bytes of a message, unless its rows are long
_USUAL_BYTES = 900
#: creates the backlog at the first call
Made = Callable[[], Backlog]
_DRAIN: Sequence[Column] = (
    ("messages", cell("messages")),
    ("bytes a message", median_of(lambda run: run["value_bytes"] / run["messages"])),
    *(("epochs", median_of(of_field("epochs"))), ("messages/s", median_of(rate))),
    ("CPU µs a message", median_of(of_field(FIGURES["message"]), 1)),
    ("CPU ms a MB", median_of(of_field(FIGURES["byte"]), 1)),
)
_CEILING: Sequence[Column] = (
    ("ceiling: messages/s", median_of(of_field("ceiling_rate"))),
    ("its CPU µs a message", median_of(of_field(CEILINGS[FIGURES["message"]]), 1)),
    ("its CPU ms a MB", median_of(of_field(CEILINGS[FIGURES["byte"]]), 1)),
)


def of_costs(names: Sequence[str], scale: float) -> Measure:
    """Of bench-costs."""
    chosen = list(axes(names, scale))
    return Measure("cost", partial(_tasks, chosen), lambda done: [section(axis, done) for axis in chosen])


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


def _tasks(chosen: Sequence[Axis], up: Servers, runs: int) -> Iterator[Task]:
    ceilings = {case for axis in chosen if axis.has_ceiling for case in axis.cases.values()}
    groups: dict[tuple[Shape, int], list[Case]] = {}
    for case in dict.fromkeys(case for axis in chosen for case in axis.cases.values()):
        groups.setdefault((case.shape, case.messages), []).append(case)
    for group in groups.values():
        chunks = {case.chunk for case in group if case in ceilings}
        assert len(chunks) < 2, "cases that share a backlog share its chunks"
        with filled(up, group[0], *chunks) as made:
            for case in group:
                measure = partial(_measured, up, case, made, case in ceilings)
                for run in range(1, runs + 1):
                    yield Task("cost", {**case.fields, "run": run}, measure)


def _measured(up: Servers, case: Case, made: Made, has_ceiling: bool) -> dict[str, Any]:
    found = made()
    drained = drain.measure(up, found, system(case), WARM_SHARE)
    if not has_ceiling:
        return drained
    alone = ceiling.measure(up, found)
    costs = drain.costs(alone, found.messages, found)
    return {
        **drained,
        **{name: costs[figure] for figure, name in CEILINGS.items()},
        "ceiling_rate": alone["rate"],
        "correct": drained["correct"] and alone["correct"],
    }


def section(axis: Axis, done: Sequence[Result]) -> Section:
    """Of one axis: a row for each size, and whether the cost grows."""
    sizes = {
        size: Group([one for one in done if case.fields.items() <= one.items()]) for size, case in axis.cases.items()
    }
    columns: Sequence[Column] = (
        *(*_DRAIN, *(_CEILING if axis.has_ceiling else ())),
        *((f"{part} MB", partial(_peak, part)) for part in PARTS),
        *(("others' load", lambda one: one.load), ("table", lambda one: one.state)),
    )
    measured = Table.of("Sizes", columns, sizes.values())
    rows = [[f"{size:,}", *row] for size, row in zip(sizes, measured.rows, strict=True)]
    table = Table(measured.title, [axis.name, *measured.columns], rows)
    grown = growth(axis.name, axis.unit, list(sizes.values()))
    epochs = f"Epochs of {BASE_EPOCH:,} messages and {BASE_EPOCH_BYTES >> 20} MB at most, unless stated otherwise."
    parts = [f"{grown.sentence[0].upper()}{grown.sentence[1:]} {epochs}", table]
    goals = [grown.goal, *memory(list(sizes.values()))]
    return Section(f"costs-{axis.name}", f"What a message costs, by {axis.name}", parts, goals)


def _peak(part: str, one: Group) -> str:
    return number(max(one.all_of(of_field("peak_megabytes", part)), default=None))
