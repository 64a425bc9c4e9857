"""A measured system as a child process, and waiting for what it does."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil

from tools.testbed.machine import Cpu, peak_megabytes, tree

STOP_SECONDS = 60.0
LOG_TAIL_LINES = 25


class SystemFailed(Exception):
    """A system ended by itself, or missed what it was expected to do."""


@dataclass(kw_only=True)
class Running:
    """A measured system."""

    log: Path
    #: seconds since 1970, just before it was started
    started_at: float

    def cpu(self) -> Mapping[str, Cpu]:
        """CPU seconds by process, servers not included."""
        raise NotImplementedError

    def peaks(self) -> Mapping[str, int]:
        """Peak memory by process so far, in megabytes."""
        return {}

    def must_live(self) -> None:
        """Raise SystemFailed with the end of the log if the system has failed."""
        raise NotImplementedError

    def tail(self) -> str:
        """The end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])

    def stop(self) -> int:
        """End it, if it runs; returns its exit status."""
        raise NotImplementedError


@dataclass(kw_only=True)
class Child(Running):
    process: subprocess.Popen[bytes]
    #: text in the log of a system that has failed while its process lives; empty: the process ends on failure
    fatal: bytes = b""
    _read: int = field(default=0, repr=False)

    def cpu(self) -> Mapping[str, Cpu]:
        return {"client": tree(self.process.pid)}

    def peaks(self) -> Mapping[str, int]:
        return {"client": round(peak_megabytes(self.process.pid))}

    def must_live(self) -> None:
        if self.process.poll() is not None:
            raise SystemFailed(f"the process ended with status {self.process.returncode}:\n{self.tail()}")
        if self.fatal and self.fatal in self._news():
            raise SystemFailed(f"the process lives, but has given up:\n{self.tail()}")

    def stop(self) -> int:
        """Send SIGTERM if it still runs, after STOP_SECONDS SIGKILL to all of its processes."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            for process in [*psutil.Process(self.process.pid).children(recursive=True), self.process]:
                process.kill()
            return self.process.wait()

    def _news(self) -> bytes:
        """Complete lines that were logged since the last call."""
        with self.log.open("rb") as log:
            log.seek(self._read)
            lines = log.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole


C = TypeVar("C", bound=Child)
A = TypeVar("A")


def unused_name() -> str:
    """A new name for a consumer group, so that it reads from the topic's beginning."""
    return f"peers-{time.time_ns()}"


@contextmanager
def running(
    command: Sequence[str],
    folder: Path,
    kind: type[C],
    *,
    fatal: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> Iterator[C]:
    """Start `command` in `folder`, in a process group of its own, with its output in `folder/log.jsonl`; stop it at the
    end of the block. `environment`: on top of this process'."""
    log = folder / "log.jsonl"
    with log.open("ab") as out:
        started_at = time.time()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    child = kind(process=process, log=log, started_at=started_at, fatal=fatal)
    try:
        yield child
    finally:
        child.stop()


def until(look: Callable[[], A | None], system: Running, what: str, *, every: float, seconds: float) -> A:
    """Call `look` every `every` seconds until it returns something other than None and False, and return that.

    Raises SystemFailed after `seconds`; `system.must_live` raises if the system has failed.
    """
    deadline = time.monotonic() + seconds
    while (found := look()) is None or found is False:
        system.must_live()
        if time.monotonic() > deadline:
            raise SystemFailed(f"gave up after {seconds:.0f} s waiting for {what}:\n{system.tail()}")
        time.sleep(every)
    return found
