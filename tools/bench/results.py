"""Results: one JSON line for each measurement, on stdout and in a file that only grows."""

import datetime
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg2
from confluent_kafka import KafkaException

from app.logs import masked
from tools.bench.lane import LaneFailed

FILE = Path("var/bench/results.jsonl")
#: processors that others may keep busy, or the host keep back, before a result is called noisy
QUIET_LOAD = 0.1

Result = dict[str, object]
#: what ends one measurement and not those after it: the lane, a server, or the way to one
FAILURES = (LaneFailed, RuntimeError, OSError, psycopg2.Error, KafkaException)


def tried(what: Result, measure: Callable[[], Result]) -> dict[str, Any]:
    """What was measured, with `what` it was; or that it failed, and why."""
    try:
        return {**what, **measure()}
    except FAILURES as failure:
        return {**what, "correct": False, "error": f"{type(failure).__name__}: {failure}"}


def cpu_used(result: dict[str, Any], field: str = "cpu_seconds") -> dict[str, float]:
    """CPU seconds by process, the benchmark's own left out."""
    return {name: seconds for name, seconds in result.get(field, {}).items() if name != "bench"}


def disturbance(result: Mapping[str, Any]) -> float:
    """Processors that others kept busy, and those that a virtual machine was not given."""
    return round((result.get("other_load") or 0.0) + (result.get("stolen_load") or 0.0), 2)


def stamped(measure: str, fields: Result) -> Result:
    """A result with what it is, when and where it was measured."""
    noisy = disturbance(fields) > QUIET_LOAD
    place = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    overrides = {name: masked(text) for name, text in os.environ.items() if name.startswith("SURELANE_")}
    at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"measure": measure, "at": at, **fields, "noisy": noisy, **place, "overrides": overrides}


def emit(result: Result) -> None:
    """Print it as the one line that belongs on stdout, and keep it."""
    line = json.dumps(result)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("a") as file:
        file.write(line + "\n")
    print(line, file=sys.stdout, flush=True)
