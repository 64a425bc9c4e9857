"""The cost of a message and a byte as one dimension at a time grows: each case once a run, on a backlog that is created
just before its first case and deleted after its last."""

import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from tools.bench import backlog, ceiling, drain, linear, report, results
from tools.bench.axes import BASE_EPOCH, BASE_EPOCH_BYTES, Axis, Case, axes
from tools.bench.backlog import Backlog
from tools.bench.goals import Goal
from tools.bench.lane import PARTS
from tools.bench.linear import CEILINGS, FIGURES, Growth
from tools.bench.page import Section, Table
from tools.bench.report import number
from tools.bench.results import Task, state
from tools.bench.servers import Servers
from tools.bench.shape import Shape
from tools.bench.summary import Group
from tools.bench.systems import System, of_lane
from tools.devstack.sections import merged

#: share of the messages that is not counted, while Spark compiles and the JVM warms up
WARM_SHARE = 0.25
#: fields whose medians over a case's runs are reported
_MEDIANS = ("rate", *FIGURES.values(), "ceiling_rate", *CEILINGS.values())
#: bytes of disk that must stay free
_SPARE = 4 << 30
#: bytes of a message, unless its rows are long
_USUAL_BYTES = 900
#: creates the backlog at the first call
Made = Callable[[], Backlog]


@dataclass(frozen=True, kw_only=True)
class Wanted(report.Wanted):
    """Options of `./run bench-costs`."""

    axes: Sequence[str]
    scale: float


def run(wanted: Wanted) -> bool:
    """Measure; returns False if a lane failed or left a wrong table. Missed goals are only reported."""
    chosen = list(axes(wanted.axes, wanted.scale))
    measured = report.measured(wanted, partial(_tasks, wanted, chosen))
    done: dict[Case, dict[str, Any]] = {}
    for case in dict.fromkeys(case for axis in chosen for case in axis.cases.values()):
        known = fields(case)
        done[case] = middle([one for one in measured if {name: one.get(name) for name in known} == known])
    rows = {axis.name: [done[case] for case in axis.cases.values()] for axis in chosen}
    grown = {axis.name: linear.growth(axis.name, axis.unit, rows[axis.name]) for axis in chosen}
    judged = {name: [grown[name].goal, *linear.memory(found)] for name, found in rows.items()}
    made = [section(grown[axis.name], table(axis, done), judged[axis.name]) for axis in chosen]
    all_goals = [goal for found in judged.values() for goal in found]
    return report.finish(wanted, "cost", measured, made, all_goals)


def system(case: Case, settings: Mapping[str, object] | None = None, **options: Any) -> System:
    """A lane with epochs as the case has them; `settings` override its configuration."""
    epoch = {"epoch": {"max_messages": case.epoch, "max_bytes": case.epoch_bytes}}
    return of_lane("surelane", "", settings=merged(epoch, settings or {}), **options)


def fields(case: Case) -> dict[str, Any]:
    """Fields of a result that identify the case."""
    shape = case.shape
    return {
        "workload": shape.name,
        "messages": case.messages,
        "tables": shape.tables,
        "columns": shape.columns,
        "row_bytes": shape.row_bytes,
        "epoch_messages": case.epoch,
        "epoch_bytes": case.epoch_bytes,
    }


@contextmanager
def filled(up: Servers, case: Case, chunk: int | None = None) -> Iterator[Made]:
    """A function that creates the case's backlog at its first call, for the ceiling in chunks of `chunk` messages. It
    raises RuntimeError if the disk is too small. The end of the block deletes the backlog."""
    kept: list[Backlog] = []

    def made() -> Backlog:
        if not kept:
            _must_fit(up, case)
            kept.append(backlog.prepare(up, case.shape, case.messages, () if chunk is None else (chunk,)))
        return kept[0]

    try:
        yield made
    finally:
        for one in kept:
            with suppress(*results.FAILURES):
                backlog.forget(up, one)


def middle(done: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Summary of the runs of one case: the first, with the medians of all; or the first incorrect one."""
    wrong = [result for result in done if not result["correct"]]
    if wrong:
        return wrong[0]
    found = {name: [result[name] for result in done if result.get(name) is not None] for name in _MEDIANS}
    peaks = {part: max(result["peak_megabytes"][part] for result in done) for part in done[0]["peak_megabytes"]}
    medians = {name: statistics.median(values) if values else None for name, values in found.items()}
    return {**done[0], **medians, "peak_megabytes": peaks}


def table(one: Axis, done: Mapping[Case, Mapping[str, Any]]) -> Table:
    """Of one axis, a row for each size."""
    columns = (
        *(one.name, "messages", "bytes a message", "epochs", "messages/s", "CPU µs a message", "CPU ms a MB"),
        *(("ceiling: messages/s", "its CPU µs a message", "its CPU ms a MB") if one.has_ceiling else ()),
        *(*(f"{part} MB" for part in PARTS), "others' load", "table"),
    )
    rows = [(f"{size:,}", *_row(done[case], has_ceiling=one.has_ceiling)) for size, case in one.cases.items()]
    return Table(title="Sizes", columns=columns, rows=rows)


def section(grown: Growth, found: Table, judged: Sequence[Goal]) -> Section:
    """Of one axis."""
    epochs = f"Epochs of {BASE_EPOCH:,} messages and {BASE_EPOCH_BYTES >> 20} MB at most, unless stated otherwise."
    text = f"{grown.sentence[0].upper()}{grown.sentence[1:]} {epochs}"
    title = f"What a message costs, by {grown.axis}"
    return Section(key=f"costs-{grown.axis}", title=title, parts=report.with_goals([text, found], judged))


def _tasks(wanted: Wanted, chosen: Sequence[Axis], up: Servers) -> Iterator[Task]:
    cases = dict.fromkeys(case for axis in chosen for case in axis.cases.values())
    ceilings = {case for axis in chosen if axis.has_ceiling for case in axis.cases.values()}
    groups: dict[tuple[Shape, int], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.shape, case.messages), []).append(case)
    for group in groups.values():
        chunks = {case.chunk for case in group if case in ceilings}
        assert len(chunks) < 2, "cases that share a backlog share its chunks"
        with filled(up, group[0], *chunks) as made:
            for case in group:
                for run in range(1, wanted.runs + 1):
                    measure = partial(_measured, up, case, made, case in ceilings)
                    yield Task(name="cost", what={**fields(case), "run": run}, measure=measure)


def _measured(up: Servers, case: Case, made: Made, has_ceiling: bool) -> dict[str, Any]:
    found = made()
    drained = {"value_bytes": found.value_bytes, **drain.measure(up, found, system(case), WARM_SHARE)}
    if not has_ceiling:
        return drained
    alone = ceiling.measure(up, found)
    cost = drain.costs(alone, found.messages, found)
    by_name = {name: cost[figure] for figure, name in CEILINGS.items()}
    return {
        **drained,
        **by_name,
        "ceiling_rate": alone["rate"],
        "correct": drained["correct"] and bool(alone["correct"]),
    }


def _must_fit(up: Servers, case: Case) -> None:
    need = case.messages * max(_USUAL_BYTES, 3 * (case.shape.row_bytes or 0)) + _SPARE
    free = shutil.disk_usage(up.data_dir).free
    if free < need:
        raise RuntimeError(
            f"{free >> 20} MB are free at {up.data_dir}, {need >> 20} are needed: choose a smaller --scale"
        )


def _row(result: Mapping[str, Any], *, has_ceiling: bool) -> Sequence[str]:
    alone = (number(result.get("ceiling_rate")), *(number(result.get(name), 1) for name in CEILINGS.values()))
    each = result["value_bytes"] / result["messages"] if "value_bytes" in result else None
    peaks = result.get("peak_megabytes", {})
    return (
        *(f"{result['messages']:,}", number(each), number(result.get("epochs")), number(result.get("rate"))),
        *(number(result.get(figure), 1) for figure in FIGURES.values()),
        *(alone if has_ceiling else ()),
        *(number(peaks.get(part)) for part in PARTS),
        *(Group([result]).load if "other_load" in result else "", state(result)),
    )
