"""A sample of a running lane: memory, threads, files, its checkpoint, its tables, and its lag."""

import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from tools.bench.child import SystemFailed
from tools.bench.lane import PARTS, Lane
from tools.bench.servers import LEDGER_SCHEMA, Cursor

_MEGABYTE = 1 << 20
_SIZES = f"""
    select (select count(*) from {LEDGER_SCHEMA}.ledger), pg_total_relation_size('{LEDGER_SCHEMA}.ledger'),
           pg_total_relation_size('{LEDGER_SCHEMA}.attempt') + pg_total_relation_size('{LEDGER_SCHEMA}.suspect')
               + pg_total_relation_size('{LEDGER_SCHEMA}.quarantine')
"""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Resource usage at one moment."""

    #: seconds since the load began
    seconds: float
    #: megabytes by process: resident set, and proportional set (shared pages divided by their users)
    rss: Mapping[str, float]
    pss: Mapping[str, float]
    threads: Mapping[str, int]
    files: Mapping[str, int]
    checkpoint_files: int
    checkpoint_megabytes: float
    ledger_rows: int
    ledger_megabytes: float
    guard_megabytes: float
    #: the target table
    table_megabytes: float
    #: maximum since the previous sample
    lag_messages: int

    def as_result(self) -> dict[str, object]:
        """Fields for a JSON line."""
        return asdict(self)


def take(held: Lane, cursor: Cursor, table: str, checkpoint: Path, begin: float, lag_messages: int) -> Sample:
    """Take a sample now; raises SystemFailed if a process is gone."""
    pids = held.pids()
    try:
        processes = {part: psutil.Process(pids[part]) for part in PARTS}
        rss = {part: _megabytes(one.memory_info().rss) for part, one in processes.items()}
        pss = {part: _pss(one.pid) for part, one in processes.items()}
        threads = {part: one.num_threads() for part, one in processes.items()}
        files = {part: one.num_fds() for part, one in processes.items()}
    except (KeyError, psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError) as gone:
        raise SystemFailed(f"a process of the lane is gone ({gone}):\n{held.tail()}") from None
    found = _sizes(checkpoint)
    cursor.execute(_SIZES)
    sizes = cursor.fetchone()
    cursor.execute(f"select pg_total_relation_size('{table}')")
    target = cursor.fetchone()
    assert sizes is not None, "one row"
    assert target is not None, "one row"
    return Sample(
        seconds=round(time.time() - begin, 1),
        rss=rss,
        pss=pss,
        threads=threads,
        files=files,
        checkpoint_files=len(found),
        checkpoint_megabytes=_megabytes(sum(found)),
        ledger_rows=sizes[0],
        ledger_megabytes=_megabytes(sizes[1]),
        guard_megabytes=_megabytes(sizes[2]),
        table_megabytes=_megabytes(target[0]),
        lag_messages=lag_messages,
    )


def _pss(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next((round(int(line.split()[1]) / 1024, 2) for line in lines if line.startswith("Pss:")), 0.0)


def _megabytes(size: int) -> float:
    return round(size / _MEGABYTE, 2)


def _sizes(folder: Path) -> list[int]:
    """Sizes of the files; one that Spark deletes meanwhile is skipped."""
    sizes: list[int] = []
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            found = path.stat()
            sizes += [found.st_size] if stat.S_ISREG(found.st_mode) else []
    return sizes
