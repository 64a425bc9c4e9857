"""An archive of a broker's classes, as Spark's JVM has one (`app.spark.class_archive`): a start takes 3 CPU seconds
instead of 5.

It fits one Java and the jars of one lock file at their paths, and its name is a hash of these.
"""

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from app.cache import cache_dir, locked
from app.class_sharing import options_to_make, options_to_use
from app.java import java_home


def classes(class_path: str, rehearse: Callable[[Sequence[str]], None]) -> list[str]:
    """Java options with which a broker starts from the archive.

    Where it is missing, `rehearse` starts and stops a broker with the options that it gets, once.
    """
    path = _path(class_path)
    if not path.exists():
        with locked(path.with_suffix(".lock")):
            if not path.exists():
                _make(path, rehearse)
    return options_to_use(path).split()


def _make(path: Path, rehearse: Callable[[Sequence[str]], None]) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".part-") as folder:
        part = Path(folder, path.name)
        rehearse(options_to_make(part).split())
        part.touch()  # a Java that wrote none passes over an empty one, and is not tried at each start
        part.replace(path)


def _path(class_path: str) -> Path:
    home = java_home()
    release = home / "release"
    parts = [str(home.resolve()), release.read_text() if release.is_file() else "", class_path]
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return cache_dir() / "classes" / f"broker-{name}.jsa"
