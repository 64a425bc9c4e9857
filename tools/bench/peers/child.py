"""A peer that is measured, as a child process; and what every measured system can be asked."""

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
    """A peer ended by itself, or did not do what it was to do."""


class Running(Protocol):
    """A measured system; a lane (`tools.bench.lane.Lane`) is one, too."""

    #: seconds since 1970, just before the process was made
    started_at: float

    def cpu(self) -> Mapping[str, Cpu]:
        """CPU seconds by process, without the servers'."""
        ...

    def must_live(self) -> None:
        """Raise with the end of the log when it does not work any more."""
        ...

    def tail(self) -> str:
        """The end of its log."""
        ...


@dataclass
class Child:
    """One running peer."""

    process: subprocess.Popen[bytes]
    log: Path
    #: seconds since 1970, just before the process was made
    started_at: float
    #: in its log: it has given up, though its process lives; empty: it ends when it gives up
    fatal: bytes = b""
    _read: int = field(default=0, repr=False)

    def cpu(self) -> Mapping[str, Cpu]:
        """What it has used so far."""
        return {"client": tree(self.process.pid)}

    def must_live(self) -> None:
        """Raise with the end of the log when the process has ended, or has given up."""
        if self.process.poll() is not None:
            raise PeerFailed(f"the process ended with status {self.process.returncode}:\n{self.tail()}")
        if self.fatal and self.fatal in self._news():
            raise PeerFailed(f"the process lives, but has given up:\n{self.tail()}")

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])

    def stop(self) -> None:
        """End it; killed when it does not end in time."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _news(self) -> bytes:
        """The whole lines that were logged since the last look."""
        with self.log.open("rb") as log:
            log.seek(self._read)
            lines = log.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole


def unused_name() -> str:
    """For a consumer group: nobody has ever read under it, so reading begins at the topic's beginning."""
    return f"peers-{time.time_ns()}"


@contextmanager
def running(command: Sequence[str], folder: Path, fatal: bytes = b"") -> Iterator[Child]:
    """Start `command` in `folder`; stopped at the end."""
    log = folder / "log"
    with log.open("wb") as out:
        started_at = time.time()
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    child = Child(process, log, started_at, fatal)
    try:
        yield child
    finally:
        child.stop()
