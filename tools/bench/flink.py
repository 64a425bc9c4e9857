"""The peer Flink: its jobs (`java/`) are compiled once for each user; each runs as one process with a local cluster."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.cache import cache_dir, locked
from app.errors import EnvironmentMissing
from app.jars import jars
from app.java import java
from tools.bench import child
from tools.bench.child import Child
from tools.bench.servers import Servers
from tools.bench.tables import TABLE
from tools.devstack.roles import LOGIN

SOURCES = Path(__file__).parent / "java"
COMPILER = "ecj"
#: most rows of a buffer before it is written; the fastest of the values that were tried
ROWS = 5000
#: Flink's default
FLUSH_MILLISECONDS = 1000
CHECKPOINT_MILLISECONDS = 1000

_OPENED = (
    *("lang", "lang.reflect", "net", "io", "nio", "text", "time", "util"),
    *("util.concurrent", "util.concurrent.atomic", "util.concurrent.locks"),
)
#: as in Flink's scripts for this Java version; times in the database are UTC
JAVA_OPTIONS = (
    "-Xms1g",
    "-Xmx2g",
    "-Duser.timezone=UTC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
)


@contextmanager
def running(
    servers: Servers, topic: str, folder: Path, *, job: str, table: str = TABLE.name, **more: object
) -> Iterator[Child]:
    """Start the job (a class of `java/`); it reads from the beginning of `topic`. `more`: settings of the job."""
    settings = {
        "bootstrap": servers.bootstrap,
        "topic": topic,
        "group": child.unused_name(),
        "url": servers.jdbc,
        "user": LOGIN,
        "table": table,
        "rows": ROWS,
        "flush_milliseconds": FLUSH_MILLISECONDS,
        "checkpoint_milliseconds": CHECKPOINT_MILLISECONDS,
        "checkpoints": folder / "checkpoints",
        "parallelism": 1,
        **more,
    }
    path = os.pathsep.join(map(str, [classes(), *_runtime()]))
    words = [f"{name}={value}" for name, value in settings.items()]
    with child.running([str(java()), *JAVA_OPTIONS, "-cp", path, f"peers.{job}", *words], folder, Child) as started:
        yield started


def classes() -> Path:
    """Folder of the compiled jobs; fetches their jars and compiles them unless they are cached."""
    sources = sorted(SOURCES.glob("*.java"))
    libraries = jars("flink")
    parts = [*(source.read_bytes() for source in sources), *(library.name.encode() for library in libraries)]
    place = cache_dir() / "peers" / hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
    if not place.is_dir():
        with locked(place.parent / ".lock"):
            if not place.is_dir():
                _compile(sources, libraries, place)
    return place


def _runtime() -> list[Path]:
    return [library for library in jars("flink") if not _is_compiler(library)]


def _is_compiler(library: Path) -> bool:
    return library.name.startswith(f"{COMPILER}-")


def _compile(sources: list[Path], libraries: list[Path], place: Path) -> None:
    """Compile with a compiler from a jar, so that a Java runtime without a compiler is enough."""
    compiler = next(library for library in libraries if _is_compiler(library))
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".part-") as scratch:
        part = Path(scratch) / "whole"
        options = ["-17", "-nowarn", "-proc:none", "-classpath", os.pathsep.join(map(str, libraries)), "-d", str(part)]
        command = [str(java()), "-jar", str(compiler), *options, *map(str, sources)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise EnvironmentMissing(
                f"the Flink jobs of tools/bench/java could not be compiled:\n{done.stdout}{done.stderr}",
                hint="is it this Java? On Debian or Ubuntu: apt-get install -y openjdk-17-jre-headless; "
                "or leave Flink out: --systems surelane,debezium-jdbc,ceiling",
            )
        part.rename(place)
