"""A worker process, seen from its supervisor: forked, listened to, told to stop, and ended with all it started.

A fork has imported already what the supervisor has. The worker stays in the supervisor's process group, so that one
signal to the group takes both. What it started (the JVM, Python workers) is found by a mark in the environment, which
a child inherits even when its parent is gone; its own forks end with it.
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

#: the name of the process, see `name_process`
WORKER_NAME = "surelane-worker"
#: environment variable whose value is this worker's alone
MARK = "SURELANE_WORKER"
#: numpy starts a pool of threads for linear algebra, of which there is none here; they wait busily (1 % of a drain)
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "1")
#: seconds that the kernel may take to end what was killed
KILL_SECONDS = 30.0
#: seconds that the JVM may take to notice that its Python is gone, and to end
JVM_SECONDS = 5.0


class InWorker(BaseException):  # it unwinds the supervisor's frames: nothing of them is the worker's
    """Raised in the worker, which is a fork of the supervisor."""

    def __init__(self, link: int) -> None:
        """`link`: the file descriptor of the worker's end."""
        super().__init__()
        self.link = link


class WorkerProcess:
    """One worker process, seen from the supervisor."""

    def __init__(self) -> None:
        """Fork it; to be called by a process of one thread. Raises Born in the worker, in which SIGTERM and SIGINT are
        blocked until it unblocks them itself."""
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
        """Exit status, negative for a signal; None while it lives."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status

    def said(self, seconds: float) -> Iterator[list[str]]:
        """All it has said on the link, words by lines; waits at most `seconds` for the first."""
        select.select([self._link], [], [], seconds)
        with suppress(BlockingIOError, ConnectionError):
            while piece := self._link.recv(READ_BYTES, socket.MSG_DONTWAIT):
                yield from self._lines.of(piece)
            if self.status is None:  # it closed its end: it is about to be gone
                ends_within(self._pid, seconds)

    def stop(self, reason: str) -> None:
        """Tell it to stop at the epoch's end."""
        with suppress(OSError):  # it is gone
            self._link.sendall(f"stop {reason}\n".encode())

    def kill(self) -> None:
        """SIGKILL to it and to everything it started; harmless when nothing is left."""
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
