"""Results: one JSON line for each measurement, on stdout and appended to a file."""

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
from tools.bench.peers.child import PeerFailed

FILE = Path("var/bench/results.jsonl")
#: processors that other programs may keep busy, or the host may steal, before a result is marked noisy
QUIET_LOAD = 0.1

Result = dict[str, object]
#: failures that end one measurement, but not those after it: of the lane, a server, or a connection
FAILURES = (LaneFailed, PeerFailed, RuntimeError, OSError, psycopg2.Error, KafkaException)


def tried(what: Result, measure: Callable[[], Result]) -> dict[str, Any]:
    """Run `measure` and add its fields to `what`; on one of FAILURES, add `correct: False` and `error` instead."""
    try:
        return {**what, **measure()}
    except FAILURES as failure:
        return {**what, "correct": False, "error": f"{type(failure).__name__}: {failure}"}


def cpu_used(result: dict[str, Any], field: str = "cpu_seconds") -> dict[str, float]:
    """CPU seconds by process, without the benchmark's own."""
    return {name: seconds for name, seconds in result.get(field, {}).items() if name != "bench"}


def disturbance(result: Mapping[str, Any]) -> float:
    """Number of processors that other programs kept busy or the host stole."""
    return round((result.get("other_load") or 0.0) + (result.get("stolen_load") or 0.0), 2)


def stamped(measure: str, fields: Result) -> Result:
    """Add the kind, time and machine of the measurement, and whether it is noisy."""
    noisy = disturbance(fields) > QUIET_LOAD
    place = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    overrides = {name: masked(text) for name, text in os.environ.items() if name.startswith("SURELANE_")}
    at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"measure": measure, "at": at, **fields, "noisy": noisy, **place, "overrides": overrides}


def emit(result: Result) -> None:
    """Print the result as one line on stdout, and append it to FILE."""
    line = json.dumps(result)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("a") as file:
        file.write(line + "\n")
    print(line, file=sys.stdout, flush=True)
