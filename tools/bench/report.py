"""Results as a table for people, on stderr."""

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.bench.comparison import FIELDS, RATIOS
from tools.bench.results import cpu_used

#: columns of text if stderr is no terminal
_WIDTH = 150
console = Console(stderr=True, width=None if sys.stderr.isatty() else _WIDTH)

_COLUMNS = ("measure", "messages/s", "from start", "of ceiling", "CPU s per 1M", "latency ms p50 / p99 / max", "table")
_UNITS = ("GB", "1M messages")
_COSTS = [
    (field, count, many) for field in FIELDS.values() for count, many in (("value_bytes", 1e9), ("messages", 1e6))
]


def say(text: str) -> None:
    """Print a line of progress."""
    console.print(f"[dim]bench:[/] {text}", highlight=False)


def table(results: Sequence[dict[str, Any]]) -> Table:
    """One row for each result, workload comparisons left out."""
    shown = Table(*_COLUMNS, title="benchmark", title_justify="left")
    for result in results:
        if result["measure"] == "workload":
            continue
        shown.add_row(
            _name(result),
            _number(result.get("rate")),
            _number(result.get("rate_from_start")),
            f"{result['ratio']:.0%}" if result.get("ratio") else "",
            _cpu(result),
            _latency(result),
            _verdict(result),
        )
    return shown


def steps(results: Sequence[dict[str, Any]]) -> Table:
    """Mean milliseconds of an epoch by step, for each result that has them."""
    timed = [result for result in results if result.get("step_milliseconds")]
    names = list(dict.fromkeys(name for result in timed for name in result["step_milliseconds"]))
    shown = Table("milliseconds an epoch", *names, title="steps", title_justify="left")
    for result in timed:
        means = result["step_milliseconds"]
        shown.add_row(_name(result), *(_number(means.get(name)) for name in names))
    return shown


def workloads(results: Sequence[dict[str, Any]]) -> Table:
    """CPU cost of a byte and of a message for each drain; then the ratios of the medians to uniform."""
    columns = (
        "bytes a message",
        *(f"CPU s per {unit}{when}" for when in ("", ", start not counted") for unit in _UNITS),
    )
    shown = Table("workload", *columns, title="workloads", title_justify="left")
    for result in results:
        if result["measure"] == "drain" and result["correct"]:
            costs = [
                f"{sum(cpu_used(result, field).values()) / result[count] * many:.1f}" for field, count, many in _COSTS
            ]
            shown.add_row(_name(result), _number(round(result["value_bytes"] / result["messages"])), *costs)
    for result in results:
        if result["measure"] == "workload":
            shown.add_row(f"{_name(result)} to uniform", "", *(f"{result[name]:.2f} times" for name in RATIOS))
    return shown


def _name(result: dict[str, Any]) -> str:
    kind = "" if result.get("workload") in (None, "uniform") else result["workload"]
    return " ".join(filter(None, (result["measure"], result.get("mode"), kind)))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,}"


def _verdict(result: dict[str, Any]) -> str:
    found = "[green]right[/]" if result["correct"] else "[red]WRONG[/]"
    return f"{found} [yellow]noisy[/]" if result["noisy"] else found


def _cpu(result: dict[str, Any]) -> str:
    millions = result["messages"] / 1_000_000
    used = cpu_used(result)
    parts = ", ".join(f"{name} {seconds / millions:.1f}" for name, seconds in used.items())
    return f"{sum(used.values()) / millions:.1f} ({parts})" if used else ""


def _latency(result: dict[str, Any]) -> str:
    if "p50_milliseconds" not in result:
        return ""
    return " / ".join(f"{result[f'{name}_milliseconds']:,.0f}" for name in ("p50", "p99", "max"))
