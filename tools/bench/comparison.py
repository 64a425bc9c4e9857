"""Ratios of medians over the same runs: guard on to guard off, and each workload to uniform."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tools.bench import results
from tools.bench.workload import Kind

#: CPU seconds of a drain
FIELDS = {"cpu": "cpu_seconds", "cpu_after_start": "cpu_seconds_after_start"}
#: result fields: a workload to uniform
RATIOS = tuple(f"{name}_per_{unit}_ratio" for name in FIELDS for unit in ("byte", "message"))
_Result = dict[str, Any]


def guard(done: Sequence[_Result]) -> Iterator[_Result]:
    """The cost of the guard, if the runs have drains both with it and without it."""
    on, off = (_drains(done, Kind.UNIFORM, mode) for mode in ("two-phase", "two-phase-unguarded"))
    if not on or not off:
        return
    found = {
        "mode": "two-phase",
        "messages": on[0]["messages"],
        "runs": min(len(on), len(off)),
        "rate_ratio": round(_median(on, _rate) / _median(off, _rate), 3),
        "cpu_ratio": round(_median(on, _cpu) / _median(off, _cpu), 3),
        "correct": True,
    }
    yield results.stamped("guard", found)


def workloads(done: Sequence[_Result]) -> Iterator[_Result]:
    """The cost of each workload relative to uniform in the same runs, for each mode."""
    modes = dict.fromkeys(one["mode"] for one in done if one["measure"] == "drain")
    for mode in modes:
        simple = _drains(done, Kind.UNIFORM, mode)
        for kind in Kind:
            found = _drains(done, kind, mode)
            if found and simple and kind is not Kind.UNIFORM:
                yield results.stamped("workload", {**_against(found, simple), "workload": str(kind), "mode": mode})


def _against(found: Sequence[_Result], simple: Sequence[_Result]) -> dict[str, object]:
    each = found[0]["value_bytes"] / found[0]["messages"]
    shorter = simple[0]["value_bytes"] / simple[0]["messages"]
    ratios: dict[str, object] = {}
    for name, field in FIELDS.items():
        per_message = _median(found, _each(field)) / _median(simple, _each(field))
        ratios[f"{name}_per_byte_ratio"] = round(per_message * shorter / each, 3)
        ratios[f"{name}_per_message_ratio"] = round(per_message, 3)
    return {"messages": found[0]["messages"], "runs": min(len(found), len(simple)), **ratios, "correct": True}


def _drains(done: Sequence[_Result], kind: Kind, mode: str) -> list[_Result]:
    return [
        one
        for one in done
        if one["measure"] == "drain" and one["mode"] == mode and one["workload"] == kind and one["correct"]
    ]


def _median(found: Sequence[_Result], value: Callable[[_Result], float]) -> float:
    return statistics.median(map(value, found))


def _each(field: str) -> Callable[[_Result], float]:
    """A function from a result to CPU seconds for each message."""
    return lambda result: sum(results.cpu_used(result, field).values()) / result["messages"]


def _rate(result: _Result) -> float:
    return result["rate"]


def _cpu(result: _Result) -> float:
    return sum(results.cpu_used(result).values())
