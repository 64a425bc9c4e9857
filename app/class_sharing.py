"""Class data sharing: a JVM maps its classes from an archive instead of reading and checking them.

An archive fits one Java and one class path. A JVM with one that does not fit starts without it.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from app.cache import cache_dir, locked

#: no log lines about an archive that does not fit
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
#: at the addresses that it was written for, where they are free, as Java did up to 16. Java 17 moves it to others at
#: each start, for which it writes to nearly all of its pages. Measured for `java -version` with Spark's archive: 0.11
#: CPU seconds instead of 0.31, 2,900 page faults instead of 40,000
_IN_PLACE = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
#: also for another user than the one who made it, as in an image: it has nothing but classes
_MODE = 0o444


def options_to_use(path: Path) -> str:
    """Java options for the archive at `path`; empty when it does not exist."""
    return f"-XX:SharedArchiveFile={path} {_IN_PLACE} {_QUIET}" if path.exists() else ""


def options_to_make(path: Path) -> str:
    """Java options for a JVM that writes the archive when it ends."""
    return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"


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
