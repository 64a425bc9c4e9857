"""Each case once a run; its backlog is made just before, and its disk given back after the last case that needs it."""

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

#: of a case's runs, medians are told of these
_MEDIANS = ("rate", *verdict.FIGURES.values(), "ceiling_rate", *verdict.CEILINGS.values())
_SAID = (*_MEDIANS, "peak_megabytes", "epochs", "correct", "error")
#: bytes that have to be free beside the backlog
_SPARE = 4 << 30
#: bytes of a message are more than this only where rows are longer than usual
_USUAL_BYTES = 900
Done = Mapping[Case, dict[str, Any]]
#: makes a backlog when it is first asked
Made = Callable[[], Backlog]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the command line asks for."""

    stack: str
    axes: Sequence[str]
    scale: float
    runs: int
    report: Path | None
    command: str


def run(wanted: Wanted) -> bool:
    """False when a lane failed or left a wrong table; goals that were missed are told only."""
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
                    say(f"{len(done) + 1}/{len(cases)} {told(case)}")
                    done[case] = _case(up, case, wanted.runs, made, case in ceilings)
    return _finished(wanted, chosen, done)


def told(case: Case) -> str:
    """In a line of progress."""
    return f"{case.shape.name}, {case.messages:,} messages, epochs of {case.epoch:,}"


def fields(case: Case) -> dict[str, Any]:
    """Of a result."""
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
    """Gives its backlog, for the ceiling in chunks of so many messages, when it is asked for; raises RuntimeError then
    when the disk is too small for it. Its disk is given back at the end."""
    kept: list[Backlog] = []

    def made() -> Backlog:
        if not kept:
            _must_fit(up, case)
            kept.append(backlog.prepare(up, case.shape, case.messages, chunk))
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
    """The run with the middle cost; WRONG when one of them was."""
    done: list[dict[str, Any]] = []
    for run in range(1, runs + 1):

        def drained() -> results.Result:
            found = made()
            drain = {"value_bytes": found.value_bytes, **measure(up, found, case)}
            return {**drain, **_ceiling(up, found, right=bool(drain["correct"]))} if has_ceiling else drain

        result = results.stamped("cost", results.tried({**fields(case), "run": run}, drained))
        results.emit(result)
        say("  " + ", ".join(f"{key} {result[key]}" for key in _SAID if key in result))
        done.append(result)
    return middle(done)


def _ceiling(up: Servers, made: Backlog, *, right: bool) -> results.Result:
    """What the server alone takes for the same rows, as the fields of a result."""
    found = ceiling.measure(up, made)
    cost = costs(found, made.messages, made)
    alone = {name: cost[figure] for figure, name in verdict.CEILINGS.items()}
    return {**alone, "ceiling_rate": found["rate"], "correct": right and bool(found["correct"])}


def middle(done: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of several runs of one case: the first, with the medians of all; or one that was not right."""
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
    asked = {name: [grown[name].goal, *verdict.memory(found)] for name, found in rows.items()}
    right = all(result["correct"] for result in done.values())
    summary = {
        "growth": {name: one.growth for name, one in grown.items()},
        "spread": {name: one.spread for name, one in grown.items()},
        "goals": [goal.as_result() for found in asked.values() for goal in found],
        "correct": right,
    }
    results.emit(results.stamped("cost-goals", summary))
    told = {axis.name: (grown[axis.name], [section.axis(axis, done), goals.table(asked[axis.name])]) for axis in chosen}
    for one, tables in told.values():
        for table in tables:
            console.print(shown(table))
        say(one.said)
    if wanted.report:
        section.write(wanted.report, wanted.command, told)
        say(f"written: {wanted.report}")
    return right
