"""Peers in Java. The programs that start them (`java/<set>`) are compiled with a compiler from a jar."""

import os
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from app.errors import EnvironmentMissing
from app.jars import SetName, jars
from app.java import java
from tools.peers import child
from tools.peers.child import Child

SOURCES = Path(__file__).parent / "java"
COMPILER = "ecj-"
#: of what is compiled
FOLDER = Path("var/bench/classes")
#: rows that each peer writes together, the fastest of the values that were tried, and milliseconds between checkpoints
ROWS, CHECKPOINT_MILLISECONDS = 5000, 1000
#: times in the database are UTC
OPTIONS = ("-Xms1g", "-Xmx2g", "-Duser.timezone=UTC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


def running(
    main: str, path: str, words: Sequence[object], folder: Path, *, options: Sequence[str] = (), fatal: bytes = b""
) -> AbstractContextManager[Child]:
    """Start the class `main` with this class path, and `words` for it; see `child.running`."""
    command = [str(java()), *OPTIONS, *options, "-cp", path, main, *map(str, words)]
    return child.running(command, folder, Child, fatal=fatal)


def class_path(name: SetName, without: str = COMPILER) -> str:
    """Of the programs of this set, with its jars, but for the compiler, and those whose names begin with `without`."""
    found = [one for one in jars(name) if not one.name.startswith((COMPILER, without))]
    return os.pathsep.join(map(str, [classes(name), *found]))


@cache
def classes(name: SetName) -> Path:
    """Folder of the compiled programs; fetches their jars."""
    place, sources, libraries = (FOLDER / name).resolve(), sorted((SOURCES / name).glob("*.java")), jars(name)
    compiler = next(library for library in libraries if library.name.startswith(COMPILER))
    options = ["-17", "-nowarn", "-proc:none", "-classpath", os.pathsep.join(map(str, libraries)), "-d", str(place)]
    command = [str(java()), "-jar", str(compiler), *options, *map(str, sources)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentMissing(
            f"the programs of {SOURCES / name} could not be compiled:\n{done.stdout}{done.stderr}",
            hint="is it this Java? On Debian or Ubuntu: apt-get install -y openjdk-17-jre-headless; "
            "or choose other systems: --systems surelane,debezium-jdbc,ceiling",
        )
    return place
