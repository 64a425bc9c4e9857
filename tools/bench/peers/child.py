"""A measured peer as a child process, and the protocol of every measured system."""

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tools.bench.machine import Cpu, tree

STOP_SECONDS = 20.0
LOG_TAIL_LINES = 25


class PeerFailed(Exception):
    """A peer ended by itself, or missed what it was expected to do."""


class Running(Protocol):
    """A measured system; `tools.bench.lane.Lane` implements it, too."""

    #: seconds since 1970, just before the process was started
    started_at: float

    def cpu(self) -> Mapping[str, Cpu]:
        """CPU seconds by process, servers not included."""
        ...

    def must_live(self) -> None:
        """Raise with the end of the log if the system has failed."""
        ...

    def tail(self) -> str:
        """The end of the log."""
        ...


@dataclass
class Child:
    process: subprocess.Popen[bytes]
    log: Path
    #: seconds since 1970, just before the process was started
    started_at: float
    #: text in the log of a peer that has failed while its process lives; empty: the process ends on failure
    fatal: bytes = b""
    _read: int = field(default=0, repr=False)

    def cpu(self) -> Mapping[str, Cpu]:
        return {"client": tree(self.process.pid)}

    def must_live(self) -> None:
        """Raise PeerFailed with the end of the log if the process has ended, or if the log has `fatal`."""
        if self.process.poll() is not None:
            raise PeerFailed(f"the process ended with status {self.process.returncode}:\n{self.tail()}")
        if self.fatal and self.fatal in self._news():
            raise PeerFailed(f"the process lives, but has given up:\n{self.tail()}")

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])

    def stop(self) -> None:
        """Send SIGTERM; after STOP_SECONDS, SIGKILL."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _news(self) -> bytes:
        """Complete lines that were logged since the last call."""
        with self.log.open("rb") as log:
            log.seek(self._read)
            lines = log.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole


def unused_name() -> str:
    """A new name for a consumer group, so that it reads from the topic's beginning."""
    return f"peers-{time.time_ns()}"


@contextmanager
def running(command: Sequence[str], folder: Path, fatal: bytes = b"") -> Iterator[Child]:
    """Start `command` in `folder`, with its output in `folder/log`; stop it at the end of the block."""
    log = folder / "log"
    with log.open("wb") as out:
        started_at = time.time()
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    child = Child(process, log, started_at, fatal)
    try:
        yield child
    finally:
        child.stop()
