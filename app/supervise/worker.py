"""A worker process, seen from its supervisor: started, listened to, told to stop, and ended with all it started.

The worker stays in the supervisor's process group, so that one signal to the group takes both. What it started (the
JVM, Python workers) is found by a mark in the environment, which a child inherits even when its parent is gone.
"""

import os
import select
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import psutil

from app.supervise.link import READ_BYTES, Lines

#: environment variable whose value is this worker's alone
MARK = "SURELANE_WORKER"
#: numpy starts a pool of threads for linear algebra, of which there is none here; they wait busily (1 % of a drain)
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
#: seconds that the kernel may take to end what was killed
KILL_SECONDS = 30.0
#: seconds that the JVM may take to notice that its Python is gone, and to end
JVM_SECONDS = 5.0
#: asks to stop; held back until the worker can take them, see `start`
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Worker:
    """One worker process."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start `command --worker FD`. SIGTERM and SIGINT are blocked in it until it unblocks them itself."""
        self._mark = uuid.uuid4().hex
        self._link, theirs = socket.socketpair()
        with theirs, _stop_signals_blocked():
            self._process = subprocess.Popen(
                [*command, "--worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**_ONE_THREAD, **os.environ, MARK: self._mark},
            )
        self._lines = Lines()

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None while it lives."""
        return self._process.poll()

    def said(self, seconds: float) -> Iterator[list[str]]:
        """All it has said on the link, words by lines; waits at most `seconds` for the first."""
        select.select([self._link], [], [], seconds)
        with suppress(BlockingIOError, ConnectionError):
            while piece := self._link.recv(READ_BYTES, socket.MSG_DONTWAIT):
                yield from self._lines.of(piece)
            with suppress(subprocess.TimeoutExpired):  # it closed its end: it is about to be gone
                self._process.wait(seconds)

    def stop(self, reason: str) -> None:
        """Tell it to stop at the epoch's end."""
        with suppress(OSError):  # it is gone
            self._link.sendall(f"stop {reason}\n".encode())

    def kill(self) -> None:
        """SIGKILL to it and to everything it started; harmless when nothing is left."""
        self._process.kill()
        self._process.wait()
        deadline = time.monotonic() + KILL_SECONDS
        while (left := self._left()) and time.monotonic() < deadline:
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1.0)

    def clean_up(self) -> None:
        """After its end: let the JVM go by itself, which takes its temporary files along; it is killed if it stays."""
        psutil.wait_procs(self._left(), timeout=JVM_SECONDS)
        self.kill()
        self._link.close()

    def _left(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._is_marked(process)]

    def _is_marked(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            return False


@contextmanager
def _stop_signals_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
