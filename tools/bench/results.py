"""Results: one JSON line for each measurement, on stdout and appended to a file. Progress is on stderr."""

import datetime
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
from confluent_kafka import KafkaException
from rich.console import Console

from app.errors import SurelaneError
from app.logs import masked
from tools.peers.child import SystemFailed

FILE = Path("var/bench/results.jsonl")
#: for people, on stderr; columns of text if that is no terminal
console = Console(stderr=True, width=None if sys.stderr.isatty() else 150)
#: processors that other programs may keep busy, or the host may steal, before a result is marked noisy
QUIET_LOAD = 0.1
#: failures that end one measurement, but not those after it: of the system, a server, or a connection
FAILURES = (SystemFailed, SurelaneError, RuntimeError, OSError, psycopg2.Error, KafkaException)
#: processes that belong to no measured system
_OURS = ("bench", "proxy")

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Task:
    """One measurement."""

    #: fields of its result that are known before
    what: Result
    measure: Callable[[], Result]


def say(text: str) -> None:
    """Print a line of progress."""
    console.print(f"[dim]bench:[/] {text}", highlight=False)


def measured(measure: str, task: Task) -> Result:
    """Measure once, and emit the result."""
    say(f"{measure}: " + ", ".join(f"{name} {value}" for name, value in task.what.items() if value is not None))
    return emit(measure, tried(task.what, task.measure))


def tried(what: Result, measure: Callable[[], Result]) -> Result:
    """Run `measure` and add its fields to `what`; on one of FAILURES, add `correct: False` and `error` instead."""
    try:
        return {**what, **measure()}
    except FAILURES as failure:
        say(str(failure))
        return {**what, "correct": False, "error": f"{type(failure).__name__}: {failure}"}


def rehearse(what: str, measure: Callable[[], Result]) -> None:
    """Run `measure` without counting it: the broker's JVM, which was just started, compiles what it runs then. It may
    fail: what counts fails again."""
    say(f"rehearsal, not counted: {what}")
    tried({}, measure)


def cpu_used(result: Mapping[str, Any], field: str = "cpu_seconds") -> dict[str, float]:
    """CPU seconds by process, without those of the benchmark."""
    return {name: seconds for name, seconds in result.get(field, {}).items() if name not in _OURS}


def disturbance(result: Mapping[str, Any]) -> float:
    """Number of processors that other programs kept busy or the host stole."""
    return round((result.get("other_load") or 0.0) + (result.get("stolen_load") or 0.0), 2)


def state(one: Mapping[str, Any]) -> str:
    """`right` or `WRONG`, or the first line of the error; nothing for what was not measured, but computed."""
    if one.get("error"):
        return f"failed: {str(one['error']).splitlines()[0][:100]}"
    return {None: "", True: "right", False: "WRONG"}[one.get("correct")]


def emit(measure: str, fields: Mapping[str, object]) -> Result:
    """Print a line on stdout and append it to FILE: the measure, its time and machine, the fields, whether it is noisy.
    Returns all of it."""
    at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    place = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    overrides = {name: masked(text) for name, text in os.environ.items() if name.startswith("SURELANE_")}
    noisy = disturbance(fields) > QUIET_LOAD
    result = {"measure": measure, "at": at, **fields, "noisy": noisy, **place, "overrides": overrides}
    line = json.dumps(result)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("a") as file:
        file.write(line + "\n")
    print(line, flush=True)
    return result
