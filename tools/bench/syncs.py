"""Which files are synced to disk, and how long that takes: strace follows the processes, where it is installed."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil

PROGRAM = "strace"
#: fsync(12</path/to/file>) = 0 <0.000123>
_LINE = re.compile(r"f(?:data)?sync\(\d+<(?P<file>[^>]*)>.*<(?P<seconds>[\d.]+)>$")
#: what a path is called, the first that it has
_NAMES = {
    "/pg_wal/": "Postgres: its log",
    "/pg_twophase/": "Postgres: prepared transactions",
    "/cluster/": "Postgres: data files",
    "/offsets": "Spark: offsets/N",
    "/commits": "Spark: commits/N",
    "/archive": "the archive",
}


def is_possible() -> bool:
    return shutil.which(PROGRAM) is not None


@contextmanager
def traced(pids: Sequence[int | None]) -> Iterator[list[tuple[str, float]]]:
    """Follow these processes and all below them; at the end of the block the list has each sync: name, milliseconds."""
    found: list[tuple[str, float]] = []
    roots = [psutil.Process(pid) for pid in pids if pid]
    members = [one.pid for root in roots for one in (root, *root.children(recursive=True))]
    with tempfile.NamedTemporaryFile("r") as out:
        follow = [word for pid in members for word in ("-p", str(pid))]
        options = ["-f", "-qq", "-y", "-T", "-e", "trace=fsync,fdatasync", "-o", out.name]
        with subprocess.Popen([PROGRAM, *options, *follow], stderr=subprocess.DEVNULL) as process:
            try:
                yield found
            finally:
                process.terminate()
        found += parsed(Path(out.name).read_text().splitlines())


def parsed(lines: Sequence[str]) -> list[tuple[str, float]]:
    matches = [match for line in lines if (match := _LINE.search(line))]
    return [(_name(match["file"]), float(match["seconds"]) * 1000) for match in matches]


def counted(syncs: Sequence[tuple[str, float]], epochs: int) -> dict[str, dict[str, float]]:
    """By name: how many an epoch, and their median milliseconds."""
    by_name: dict[str, list[float]] = {}
    for name, milliseconds in syncs:
        by_name.setdefault(name, []).append(milliseconds)
    return {
        name: {"an_epoch": round(len(taken) / epochs, 2), "milliseconds": round(median(taken), 2)}
        for name, taken in sorted(by_name.items())
    }


def _name(file: str) -> str:
    return next((name for part, name in _NAMES.items() if part in file), Path(file).name)
