"""All measurements in order: for each workload the ceiling, then each mode relative to it; then latency."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tools.bench import backlog, ceiling, comparison, drain, latency, machine, results, servers
from tools.bench.backlog import Backlog
from tools.bench.lane import LaneFailed
from tools.bench.report import console, say, steps, table, workloads
from tools.bench.results import Result
from tools.bench.servers import Servers
from tools.bench.workload import Kind, as_many_bytes

_KEYS = ("rate", "ratio", "p50_milliseconds", "p99_milliseconds", "cpu_seconds", "other_load", "stolen_load", "correct")
_COMPARED = ("measure", "mode", "workload", "rate_ratio", "cpu_ratio", *comparison.RATIOS)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options of `./run bench`."""

    #: name of the stack of local servers
    stack: str
    #: number of messages of 792 bytes; fewer where they are longer
    messages: int
    modes: Sequence[str]
    workloads: Sequence[Kind]
    runs: int
    #: 0: latency is not measured
    seconds: int
    rate: int
    warm_up: int = latency.WARM_UP_SECONDS


def run(wanted: Wanted) -> bool:
    """Measure; returns False if a lane failed or left a wrong table."""
    done: list[dict[str, Any]] = []
    say("starting Kafka and Postgres")
    with servers.running(wanted.stack) as up:
        filled = [_prepared(up, kind, wanted.messages) for kind in wanted.workloads]
        say(f"others keep {machine.others_load()} of the processors busy")
        for _ in range(wanted.runs):
            done += _one_run(up, filled, wanted)
    done += map(_emitted, [*comparison.guard(done), *comparison.workloads(done)])
    console.print(table(done))
    console.print(steps(done))
    if len(wanted.workloads) > 1:
        console.print(workloads(done))
    return all(result["correct"] for result in done)


def _prepared(up: Servers, kind: Kind, messages: int) -> Backlog:
    messages = as_many_bytes(kind.shape, messages)
    say(f"{messages:,} messages, workload {kind}: making them, unless they are there")
    return backlog.prepare(up, kind.shape, messages)


def _one_run(up: Servers, filled: Sequence[Backlog], wanted: Wanted) -> Iterator[dict[str, Any]]:
    for one in filled:
        yield from _drained(up, one, wanted.modes)
    if wanted.seconds:
        held: Result = {"messages": wanted.rate * wanted.seconds, "mode": latency.MODE, "asked_rate": wanted.rate}
        yield _measured("latency", held, lambda: latency.measure(up, wanted.rate, wanted.seconds, wanted.warm_up))


def _drained(up: Servers, filled: Backlog, modes: Sequence[str]) -> Iterator[dict[str, Any]]:
    what: Result = {"workload": filled.shape.name, "messages": filled.messages, "value_bytes": filled.value_bytes}
    top = _measured("ceiling", what, lambda: ceiling.measure(up, filled))
    yield top
    for mode in modes:
        against = {**what, "mode": mode, "ceiling_rate": top["rate"]}
        yield _measured("drain", against, lambda mode=mode: drain.measure(up, filled, mode))


def _emitted(result: dict[str, Any]) -> dict[str, Any]:
    results.emit(result)
    say(", ".join(f"{key} {value}" for key, value in result.items() if key in _COMPARED))
    return result


def _measured(name: str, what: Result, measure: Callable[[], Result]) -> dict[str, Any]:
    """Measure once, and print the result."""
    say(f"measuring: {name} {what.get('mode', '')} {what.get('workload', '')}")
    try:
        fields: dict[str, Any] = {**what, **measure()}
    except LaneFailed as failure:
        say(str(failure))
        fields = {**what, "correct": False, "error": str(failure)}
    if fields.get("rate") and fields.get("ceiling_rate"):
        fields["ratio"] = round(fields["rate"] / fields["ceiling_rate"], 3)
    result = results.stamped(name, fields)
    results.emit(result)
    say(", ".join(f"{key} {result[key]}" for key in _KEYS if key in result))
    return result
