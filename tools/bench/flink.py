"""The peer Flink: its jobs (`java/flink`), each of which runs as one process with a local cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.java import java
from tools.bench import child, javajobs
from tools.bench.child import Child
from tools.bench.servers import Servers
from tools.bench.tables import TABLE
from tools.devstack.roles import LOGIN

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
    """Start the job (a class of `java/flink`); it reads from the beginning of `topic`. `more`: settings of the job."""
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
    path = javajobs.class_path("flink")
    words = [f"{name}={value}" for name, value in settings.items()]
    with child.running([str(java()), *JAVA_OPTIONS, "-cp", path, f"peers.{job}", *words], folder, Child) as started:
        yield started


def classes() -> None:
    """Fetch and compile the jobs, unless that is done."""
    javajobs.classes("flink")
