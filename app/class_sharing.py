"""Class data sharing: a JVM maps its classes from an archive instead of reading and checking them.

    rehearsal with options_to_list ...... the classes that it loads
    dump ................................ the archive
    every start with options_to_use ..... maps it

An archive fits one Java and one class path. A JVM with one that does not fit starts without it.
"""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from app.cache import cache_dir, locked

#: no log lines about an archive that does not fit
_QUIET = "-Xlog:cds=off"
#: at the addresses that it was written for, where they are free, as Java did up to 16. Java 17 moves it to others at
#: each start, for which it writes to nearly all of its pages. Measured for `java -version` with Spark's archive: 0.11
#: CPU seconds instead of 0.31, 2,900 page faults instead of 40,000
_IN_PLACE = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
#: the collector that can write objects into an archive, those of classes that are there already; others read them
_WITH_OBJECTS = "-XX:+UseG1GC"
#: also for another user than the one who made it, as in an image: it has nothing but classes
_MODE = 0o444


def options_to_use(path: Path) -> str:
    """Java options for the archive at `path`; empty when it does not exist."""
    return f"-XX:SharedArchiveFile={path} {_IN_PLACE} {_QUIET}" if path.exists() else ""


def options_to_list(path: Path) -> str:
    """Java options for a JVM that writes to `path` which classes it loads."""
    return f"-XX:DumpLoadedClassList={path}"


def dump(java_home: Path, listing: Path, class_path: Sequence[Path], path: Path, seconds: float) -> str:
    """Have a JVM write the archive of the listed classes to `path`; returns what it says. A start's class path may have
    more behind `class_path`. Raises OSError and SubprocessError."""
    words = [f"-XX:SharedClassListFile={listing}", f"-XX:SharedArchiveFile={path}"]
    places = ["-cp", os.pathsep.join(map(str, class_path))]
    command = [str(java_home / "bin" / "java"), "-Xshare:dump", _WITH_OBJECTS, *words, *places]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
    )
    return f"{done.stdout}{done.stderr}"


def archive_of(java_home: Path, parts: Iterable[str], prefix: str = "") -> Path:
    """The path of the archive for this Java and these parts, whether it exists or not."""
    release = java_home / "release"
    whole = [str(java_home.resolve()), release.read_text() if release.is_file() else "", *parts]
    name = hashlib.sha256("\n".join(whole).encode()).hexdigest()[:16]
    return cache_dir() / "classes" / f"{prefix}{name}.jsa"


def make_once(path: Path, make: Callable[[Path], None]) -> None:
    """Have `make` write the archive to the path that it gets, unless there is one at `path`; one process at a time."""
    if path.exists():
        return
    with locked(path.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=path.parent, prefix=".part-") as folder:
        if not path.exists():
            part = Path(folder, path.name)
            make(part)
            part.chmod(_MODE)
            part.replace(path)
