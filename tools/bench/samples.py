"""A sample of a running lane: memory, threads, files, its checkpoint, its tables, and its lag."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tools.bench.child import SystemFailed
from tools.bench.lane import PARTS, Lane
from tools.bench.servers import LEDGER_SCHEMA
from tools.bench.trial import Trial

_MEGABYTE = 1 << 20
_GUARD = " + ".join(
    f"pg_total_relation_size('{LEDGER_SCHEMA}.{name}')" for name in ("attempt", "suspect", "quarantine")
)
_SIZES = f"""
    select (select count(*) from {LEDGER_SCHEMA}.ledger), pg_total_relation_size('{LEDGER_SCHEMA}.ledger'), {_GUARD},
           pg_total_relation_size(%s)
"""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Resource usage at one moment."""

    #: seconds since the load began
    seconds: float
    #: megabytes by process: proportional set, in which shared pages are divided by their users
    pss: Mapping[str, float]
    threads: Mapping[str, int]
    files: Mapping[str, int]
    checkpoint_files: int
    ledger_rows: int
    ledger_megabytes: float
    guard_megabytes: float
    #: the target table
    table_megabytes: float
    #: maximum since the previous sample
    lag_messages: int


def take(one: Trial, table: str, checkpoint: Path, begin: float, lag_messages: int) -> Sample:
    """Take a sample now; raises SystemFailed if a process is gone."""
    assert isinstance(one.held, Lane)
    pids = one.held.pids()
    try:
        processes = {part: psutil.Process(pids[part]) for part in PARTS}
        pss = {part: _megabytes(process.memory_full_info().pss) for part, process in processes.items()}
        threads = {part: process.num_threads() for part, process in processes.items()}
        files = {part: process.num_fds() for part, process in processes.items()}
    except (KeyError, psutil.NoSuchProcess) as gone:
        raise SystemFailed(f"a process of the lane is gone ({gone}):\n{one.held.tail()}") from None
    one.cursor.execute(_SIZES, [table])
    ((rows, *sizes),) = one.cursor.fetchall()
    ledger, guard, target = map(_megabytes, sizes)
    return Sample(
        seconds=round(time.time() - begin, 1),
        pss=pss,
        threads=threads,
        files=files,
        checkpoint_files=sum(path.is_file() for path in checkpoint.rglob("*")),
        ledger_rows=rows,
        ledger_megabytes=ledger,
        guard_megabytes=guard,
        table_megabytes=target,
        lag_messages=lag_messages,
    )


def _megabytes(size: int) -> float:
    return round(size / _MEGABYTE, 2)
