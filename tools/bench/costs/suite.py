"""Measures each case once a run; creates a backlog just before its first case, and deletes it after its last."""

import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.bench import backlog, ceiling, goals, results, servers
from tools.bench.backlog import Backlog
from tools.bench.costs import section, verdict
from tools.bench.costs.axes import Axis, Case, axes
from tools.bench.costs.measure import MODE, costs, measure
from tools.bench.report import console, say
from tools.bench.servers import Servers
from tools.bench.shape import Shape
from tools.bench.terminal import shown

#: fields whose medians over a case's runs are reported
_MEDIANS = ("rate", *verdict.FIGURES.values(), "ceiling_rate", *verdict.CEILINGS.values())
_KEYS = (*_MEDIANS, "peak_megabytes", "epochs", "correct", "error")
#: bytes of disk that must stay free
_SPARE = 4 << 30
#: bytes of a message, unless its rows are long
_USUAL_BYTES = 900
Done = Mapping[Case, dict[str, Any]]
#: creates the backlog at the first call
Made = Callable[[], Backlog]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options of `./run bench-costs`."""

    stack: str
    axes: Sequence[str]
    scale: float
    runs: int
    report: Path | None
    command: str


def run(wanted: Wanted) -> bool:
    """Measure; returns False if a lane failed or left a wrong table. Missed goals are only reported."""
    chosen = list(axes(wanted.axes, wanted.scale))
    cases = dict.fromkeys(case for axis in chosen for case in axis.cases.values())
    ceilings = {case for axis in chosen if axis.has_ceiling for case in axis.cases.values()}
    groups: dict[tuple[Shape, int], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.shape, case.messages), []).append(case)
    done: dict[Case, dict[str, Any]] = {}
    say("starting Kafka and Postgres")
    with servers.running(wanted.stack) as up:
        for group in groups.values():
            chunks = {case.chunk for case in group if case in ceilings}
            assert len(chunks) < 2, "cases that share a backlog share its chunks"
            with filled(up, group[0], *chunks) as made:
                for case in group:
                    say(f"{len(done) + 1}/{len(cases)} {describe(case)}")
                    done[case] = _case(up, case, wanted.runs, made, case in ceilings)
    return _finished(wanted, chosen, done)


def describe(case: Case) -> str:
    """Text for a line of progress."""
    return f"{case.shape.name}, {case.messages:,} messages, epochs of {case.epoch:,}"


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
        "mode": MODE,
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


def _must_fit(up: Servers, case: Case) -> None:
    need = case.messages * max(_USUAL_BYTES, 3 * (case.shape.row_bytes or 0)) + _SPARE
    free = shutil.disk_usage(up.data_dir).free
    if free < need:
        raise RuntimeError(
            f"{free >> 20} MB are free at {up.data_dir}, {need >> 20} are needed: choose a smaller --scale"
        )


def _case(up: Servers, case: Case, runs: int, made: Made, has_ceiling: bool) -> dict[str, Any]:
    """Measure all runs of one case and summarise them, see `middle`."""
    done: list[dict[str, Any]] = []
    for run in range(1, runs + 1):

        def drained() -> results.Result:
            found = made()
            drain = {"value_bytes": found.value_bytes, **measure(up, found, case)}
            return {**drain, **_ceiling(up, found, right=bool(drain["correct"]))} if has_ceiling else drain

        result = results.stamped("cost", results.tried({**fields(case), "run": run}, drained))
        results.emit(result)
        say("  " + ", ".join(f"{key} {result[key]}" for key in _KEYS if key in result))
        done.append(result)
    return middle(done)


def _ceiling(up: Servers, made: Backlog, *, right: bool) -> results.Result:
    """Measure the ceiling with the same rows; returns the fields of a result."""
    found = ceiling.measure(up, made)
    cost = costs(found, made.messages, made)
    alone = {name: cost[figure] for figure, name in verdict.CEILINGS.items()}
    return {**alone, "ceiling_rate": found["rate"], "correct": right and bool(found["correct"])}


def middle(done: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Summary of the runs of one case: the first, with the medians of all; or the first incorrect one."""
    wrong = [result for result in done if not result["correct"]]
    if wrong:
        return wrong[0]
    found = {name: [result[name] for result in done if result.get(name) is not None] for name in _MEDIANS}
    peaks = {part: max(result["peak_megabytes"][part] for result in done) for part in done[0]["peak_megabytes"]}
    medians = {name: statistics.median(values) if values else None for name, values in found.items()}
    return {**done[0], **medians, "peak_megabytes": peaks}


def _finished(wanted: Wanted, chosen: Sequence[Axis], done: Done) -> bool:
    rows = {axis.name: [done[case] for case in axis.cases.values()] for axis in chosen}
    grown = {axis.name: verdict.growth(axis.name, axis.unit, rows[axis.name]) for axis in chosen}
    judged = {name: [grown[name].goal, *verdict.memory(found)] for name, found in rows.items()}
    right = all(result["correct"] for result in done.values())
    summary = {
        "growth": {name: one.growth for name, one in grown.items()},
        "spread": {name: one.spread for name, one in grown.items()},
        "goals": [goal.as_result() for found in judged.values() for goal in found],
        "correct": right,
    }
    results.emit(results.stamped("cost-goals", summary))
    sections = {
        axis.name: (grown[axis.name], [section.axis(axis, done), goals.table(judged[axis.name])]) for axis in chosen
    }
    for one, tables in sections.values():
        for table in tables:
            console.print(shown(table))
        say(one.sentence)
    if wanted.report:
        section.write(wanted.report, wanted.command, sections)
        say(f"written: {wanted.report}")
    return right
