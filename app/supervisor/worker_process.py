"""A worker process in its supervisor: fork it, read its link, stop it, and kill it with all processes it started.

A fork has all modules of the supervisor. The worker stays in the supervisor's process group, so that one signal to the
group reaches both. The processes that it started (the JVM, Python workers) have a mark in their environment, which a
child keeps when its parent has ended; the worker's own forks end with it.
"""

import os
import select
import signal
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress

import psutil

from app.process import STOP_SIGNALS, ends_within, name_process
from app.supervisor.link import READ_BYTES, LineBuffer

#: name of the process, see `name_process`
WORKER_NAME = "surelane-worker"
#: environment variable with a value that is unique to a worker
MARK = "SURELANE_WORKER"
#: without it numpy starts a pool of threads for linear algebra, which is not used here; they spin (1 % of a drain)
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "1")
#: seconds that the kernel may take to end killed processes
KILL_SECONDS = 30.0
#: seconds that the JVM may take to end after its Python process
JVM_SECONDS = 5.0


class InWorker(BaseException):  # it unwinds the supervisor's frames, which the worker does not use
    """Raised in the worker, which is a fork of the supervisor."""

    def __init__(self, link: int) -> None:
        """`link`: file descriptor of the worker's end."""
        super().__init__()
        self.link = link


class WorkerProcess:
    def __init__(self) -> None:
        """Fork the worker; the calling process must have one thread. Raises InWorker in the worker, where SIGTERM and
        SIGINT stay blocked until it unblocks them."""
        self._mark = uuid.uuid4().hex
        self._link, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        self._pid = os.fork()
        if not self._pid:
            self._link.close()
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            os.environ.setdefault(*_ONE_THREAD)
            os.environ[MARK] = self._mark
            name_process(WORKER_NAME)
            raise InWorker(theirs.detach())
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._status: int | None = None
        self._lines = LineBuffer()

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None while the worker lives."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status

    def lines(self, seconds: float) -> Iterator[list[str]]:
        """The words of each line received on the link; waits at most `seconds` for the first."""
        select.select([self._link], [], [], seconds)
        with suppress(BlockingIOError, ConnectionError):
            while piece := self._link.recv(READ_BYTES, socket.MSG_DONTWAIT):
                yield from self._lines.of(piece)
            if self.status is None:  # it closed its end and is about to exit
                ends_within(self._pid, seconds)

    def stop(self, reason: str) -> None:
        """Request a stop at the epoch's end."""
        with suppress(OSError):  # it has ended
            self._link.sendall(f"stop {reason}\n".encode())

    def kill(self) -> None:
        """Send SIGKILL to the worker and to all processes it started; does nothing when none is left."""
        if self.status is None:
            os.kill(self._pid, signal.SIGKILL)
            ends_within(self._pid, KILL_SECONDS)
        deadline = time.monotonic() + KILL_SECONDS
        while (left := self._left()) and time.monotonic() < deadline:
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1.0)

    def clean_up(self) -> None:
        """After the worker's end: wait for its JVM, which deletes temporary files, and kill it after JVM_SECONDS."""
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
