"""Class data sharing: a JVM that maps Spark's classes into memory instead of finding, reading and checking them.

    python -m app.spark.class_archive    makes the archive unless it is there: one to two minutes and 210 MB, once

An archive fits one Java and one Spark at their paths, and its name is a hash of these. A JVM that finds none, or one
that does not fit after all, starts without it. Making it needs no servers, so that an image can be built with it.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from app.class_sharing import archive_of, dump, make_once
from app.errors import EnvironmentMissing
from app.jars import jars
from app.java import java_home
from app.spark.home import pyspark_home, spark_home

#: another one for another rehearsal (`app.source.rehearsal`) or another way of making it
_EDITION = "3"
#: seconds for the rehearsal and for writing the archive, on a busy machine
MAKE_SECONDS = 600


def class_path(jars: Sequence[Path]) -> list[Path]:
    """`jars`, and Spark's own in the order of their names.

    Spark's launcher takes them in the folder's listing order. That differs between file systems, also between a folder
    and its copy in an image, and an archive fits one order only. The JVM does not check what the launcher adds behind.
    """
    return [*jars, *sorted((spark_home() / "jars").glob("*.jar"))]


def archive(java_home: Path, jars: Sequence[Path]) -> Path:
    """The path of the archive for this Java, this Spark and these jars, whether it exists or not."""
    # for the path of Spark's files; every installation writes this one anew
    version = pyspark_home() / "version.py"
    text = version.read_text() if version.is_file() else ""
    return archive_of(java_home, [str(version), text, *map(str, class_path(jars)), _EDITION])


def make_archive() -> Path:
    """Make the archive unless it exists; raises EnvironmentMissing when this Java cannot."""
    path = archive(java_home(), jars("spark"))
    make_once(path, _make)
    return path


def _make(part: Path) -> None:
    """Run the rehearsal in a separate process, whose JVM lists its classes, and write these to the archive."""
    print("surelane: making Spark's starts faster (once; takes one to two minutes)", file=sys.stderr, flush=True)
    listing = part.with_suffix(".classes")
    command = [sys.executable, "-m", "app.source.rehearsal", str(listing)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MAKE_SECONDS, check=False)
    words = f"{done.stdout}{done.stderr}"
    if not done.returncode and listing.exists():
        words = dump(java_home(), listing, class_path(jars("spark")), part, MAKE_SECONDS)
    if not part.exists():
        hint = "go on without: starts are slower"
        raise EnvironmentMissing(f"no class archive could be made:\n{words[-2000:]}", hint=hint)


if __name__ == "__main__":
    try:
        make_archive()
    except EnvironmentMissing as error:
        print(f"surelane: {error.message}\n  what to do: {error.hint}", file=sys.stderr)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"surelane: no class archive could be made, starts are slower without: {error}", file=sys.stderr)
