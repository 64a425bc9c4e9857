"""Everything that is measured, in order: the ceiling first, then each mode against it, then latency."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench import backlog, ceiling, drain, latency, machine, results, servers
from bench.backlog import Backlog
from bench.lane import LaneFailed
from bench.report import console, say, steps, table
from bench.results import Result
from bench.servers import Servers
from bench.workload import Kind

_SAID = ("rate", "ratio", "p50_milliseconds", "p99_milliseconds", "cpu_seconds", "other_load", "correct")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the command line asks for."""

    #: name of the stack of local servers
    stack: str
    messages: int
    modes: Sequence[str]
    workload: Kind
    runs: int
    #: 0: latency is not measured
    seconds: int
    rate: int
    warm_up: int = latency.WARM_UP_SECONDS


def run(wanted: Wanted) -> bool:
    """Measure; False when a lane failed or left a wrong table."""
    done: list[dict[str, Any]] = []
    say("starting Kafka and Postgres")
    with servers.running(wanted.stack) as up:
        say(f"{wanted.messages:,} messages, workload {wanted.workload}: making them, unless they are there")
        filled = backlog.prepare(up, wanted.workload, wanted.messages)
        say(f"others keep {machine.others_load()} of the processors busy")
        for _ in range(wanted.runs):
            done += _one_run(up, filled, wanted)
    done += _guard(done)
    console.print(table(done))
    console.print(steps(done))
    return all(result["correct"] for result in done)


def _one_run(up: Servers, filled: Backlog, wanted: Wanted) -> Iterator[dict[str, Any]]:
    what: Result = {"workload": str(wanted.workload), "messages": wanted.messages}
    top = _measured("ceiling", what, lambda: ceiling.measure(up, filled))
    yield top
    for mode in wanted.modes:
        against = {**what, "mode": mode, "ceiling_rate": top["rate"]}
        yield _measured("drain", against, lambda mode=mode: drain.measure(up, filled, mode))
    if wanted.seconds:
        held: Result = {"messages": wanted.rate * wanted.seconds, "mode": latency.MODE, "asked_rate": wanted.rate}
        yield _measured("latency", held, lambda: latency.measure(up, wanted.rate, wanted.seconds, wanted.warm_up))


def _guard(done: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What the guard costs, where the same runs have it and have it not: medians of all of them."""
    on, off = (
        [one for one in done if one["measure"] == "drain" and one["mode"] == mode and one["correct"]]
        for mode in ("two-phase", "two-phase-unguarded")
    )
    if not on or not off:
        return

    def median(results: Sequence[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> float:
        return statistics.median(map(value, results))

    def cpu(result: dict[str, Any]) -> float:
        return sum(results.cpu_used(result).values())

    found = {
        "mode": "two-phase",
        "messages": on[0]["messages"],
        "runs": min(len(on), len(off)),
        "rate_ratio": round(median(on, lambda one: one["rate"]) / median(off, lambda one: one["rate"]), 3),
        "cpu_ratio": round(median(on, cpu) / median(off, cpu), 3),
        "correct": True,
    }
    result = results.stamped("guard", found)
    results.emit(result)
    say(f"with guard: {result['rate_ratio']} of the rate, {result['cpu_ratio']} of the CPU seconds without")
    yield result


def _measured(name: str, what: Result, measure: Callable[[], Result]) -> dict[str, Any]:
    """Measure, and say the result at once."""
    say(f"measuring: {name} {what.get('mode', '')}")
    try:
        fields: dict[str, Any] = {**what, **measure()}
    except LaneFailed as failure:
        say(str(failure))
        fields = {**what, "correct": False, "error": str(failure)}
    if fields.get("rate") and fields.get("ceiling_rate"):
        fields["ratio"] = round(fields["rate"] / fields["ceiling_rate"], 3)
    result = results.stamped(name, fields)
    results.emit(result)
    say(", ".join(f"{key} {result[key]}" for key in _SAID if key in result))
    return result
