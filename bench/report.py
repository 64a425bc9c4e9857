"""Results as a table for people, on stderr."""

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.results import cpu_used

#: columns of text where the terminal does not say
_WIDTH = 150
console = Console(stderr=True, width=None if sys.stderr.isatty() else _WIDTH)

_COLUMNS = ("measure", "messages/s", "from start", "of ceiling", "CPU s per 1M", "latency ms p50 / p99 / max", "table")


def say(text: str) -> None:
    """A line of progress."""
    console.print(f"[dim]bench:[/] {text}", highlight=False)


def table(results: Sequence[dict[str, Any]]) -> Table:
    """One row for each result."""
    shown = Table(*_COLUMNS, title="benchmark", title_justify="left")
    for result in results:
        shown.add_row(
            f"{result['measure']} {result.get('mode', '')}",
            _number(result.get("rate")),
            _number(result.get("rate_from_start")),
            f"{result['ratio']:.0%}" if result.get("ratio") else "",
            _cpu(result),
            _latency(result),
            _verdict(result),
        )
    return shown


def steps(results: Sequence[dict[str, Any]]) -> Table:
    """Where the time of an average epoch went."""
    told = [result for result in results if result.get("step_milliseconds")]
    names = list(dict.fromkeys(name for result in told for name in result["step_milliseconds"]))
    shown = Table("milliseconds an epoch", *names, title="steps", title_justify="left")
    for result in told:
        means = result["step_milliseconds"]
        shown.add_row(f"{result['measure']} {result['mode']}", *(_number(means.get(name)) for name in names))
    return shown


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
