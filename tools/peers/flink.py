"""The peer Flink: its jobs (`java/flink`), each of which runs as one process with a local cluster."""

from contextlib import AbstractContextManager
from pathlib import Path

from tools.devstack.roles import LOGIN
from tools.peers import child, javajobs
from tools.peers.child import Child
from tools.peers.javajobs import CHECKPOINT_MILLISECONDS, ROWS
from tools.testbed.servers import Servers
from tools.testbed.tables import TABLE

#: Flink's default
FLUSH_MILLISECONDS = 1000
_OPENED = (
    *("lang", "lang.reflect", "net", "io", "nio", "text", "time", "util"),
    *("util.concurrent", "util.concurrent.atomic", "util.concurrent.locks"),
)
#: as in Flink's scripts for this Java version
OPTIONS = (
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
)


def running(
    servers: Servers, topic: str, folder: Path, *, job: str, table: str = TABLE.name, **more: object
) -> AbstractContextManager[Child]:
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
    words = [f"{name}={value}" for name, value in settings.items()]
    return javajobs.running(f"peers.{job}", javajobs.class_path("flink"), words, folder, options=OPTIONS)
