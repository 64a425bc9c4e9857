"""The resident Spark task: for as long as the lane runs it keeps a stage process, which works on the driver's requests.

The task's own process (PySpark's Python worker) starts the stage process, reports its end to the driver and starts
another one: no death of it costs Spark a task. The task ends when the driver closes its connection.
"""

import itertools
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection
from typing import Any

import msgspec

from app.collector import settle_collector
from app.model.death import HANGS_ALONE, by_a_message
from app.oom import OomWatch
from app.process import end_with, ends_within, name_process, use_small_pages
from app.stage.archiving import Archiving
from app.stage.inbox import Granted, Inbox, Requests
from app.stage.request import Decode, Keep, Request, StoredMessage
from app.stage.stager import ArrangedSpan, StageConfig, Stager
from app.stage.wire import keep_alive

#: seconds that a stage process has to live for the next one to be started at once
_AGAIN_SECONDS = 0.2
#: seconds between two readings of the kernel's out-of-memory counter
_LOOK_SECONDS = 1.0
#: seconds in which the driver's second connection closes after the first
_CLOSING_SECONDS = 2.0


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message of each connection."""

    #: number of the resident job
    slot: int
    host: str
    pid: int
    #: pid of the task's own process, which reports how stage processes end
    task: int

    @property
    def watches(self) -> bool:
        """Whether the task's own process sent this."""
        return self.pid == self.task


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """A stage process has ended."""

    pid: int
    #: exit status, negative for a signal
    status: int
    #: whether the kernel's out-of-memory killer killed a process just before
    for_memory: bool


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Kill a stage process that hangs: sent to the task's own process."""

    pid: int


class Try(msgspec.Struct, frozen=True, tag="try"):
    """Decode a message and run the user's function on it, in a separate process: sent to the task's own process."""

    message: StoredMessage
    #: after which it is a hang
    seconds: float


class Tried(msgspec.Struct, frozen=True, tag="tried"):
    """What ended that process; None: it survived."""

    cause: str | None


_ORDERS = msgspec.msgpack.Decoder(Kill | Try)
#: pid of PySpark's daemon, which ends with its executor; 0: the workers of this session are not forks of `daemon`
_daemon = 0


def become_daemon() -> None:
    """Let the tasks of this process' forks end with it, also those that begin when it has ended already."""
    global _daemon  # a fork has no other way to know which process it comes from
    _daemon = os.getpid()


@dataclass(frozen=True)
class Task:
    """The function that Spark sends to the executor."""

    slot: int
    #: host and port of the driver
    address: tuple[str, int]
    key: bytes
    config: StageConfig

    def __call__(self, nothing: Iterable[object]) -> None:
        """Serve until the driver closes the connection."""
        for _ in nothing:  # PySpark reuses a worker only when its task has read its input to the end
            pass
        end_with(_daemon or os.getppid())
        with self._connect() as control:
            control.send_bytes(msgspec.msgpack.encode(self._hello(os.getpid())))
            for number in itertools.count():
                begin = time.monotonic()
                ended = self._attended(control, is_successor=number > 0)
                if ended is None:
                    return
                with suppress(OSError):
                    control.send_bytes(msgspec.msgpack.encode(ended))
                if time.monotonic() - begin < _AGAIN_SECONDS:
                    time.sleep(_AGAIN_SECONDS)

    def _attended(self, control: Connection, *, is_successor: bool) -> Ended | None:
        """Start a stage process and wait for its end; None: the driver has closed the connection."""
        pid = self._start(control, is_successor=is_successor)
        ended, oom = os.pidfd_open(pid), OomWatch()
        try:
            while True:
                ready, _, _ = select.select([ended, control], [], [], _LOOK_SECONDS)
                if not ready:
                    oom.look()
                    continue
                if ended in ready:
                    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    if status == 0 and control.poll(_CLOSING_SECONDS):  # the driver has closed both
                        return None
                    return Ended(pid, status, for_memory=oom.has_killed)
                try:
                    self._obey(control, pid)
                except (EOFError, OSError):  # the driver is gone
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    return None
        finally:
            os.close(ended)

    def _obey(self, control: Connection, pid: int) -> None:
        match _ORDERS.decode(control.recv_bytes()):
            case Kill(pid=hanging) if hanging == pid:
                os.kill(pid, signal.SIGKILL)
            case Try() as wanted:
                control.send_bytes(msgspec.msgpack.encode(Tried(self._tried(control, wanted))))
            case _:  # an order for a process that is gone
                return

    def _tried(self, control: Connection, wanted: Try) -> str | None:
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            try:
                self._begin(parent, control)
                with Stager(self.config, lambda: False) as stager:
                    stager.decoded(Decode(0, "", (wanted.message,)))
            finally:
                os._exit(0)
        is_over = ends_within(pid, wanted.seconds)
        if not is_over:
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if not is_over:
            return HANGS_ALONE
        return by_a_message(status)

    def _connect(self) -> Connection:
        connection: Any = Client(self.address, authkey=self.key)
        keep_alive(connection)
        return connection

    def _hello(self, task: int) -> Hello:
        return Hello(self.slot, socket.gethostname(), os.getpid(), task)

    def _begin(self, parent: int, control: Connection) -> None:
        """Set up a process that was just forked."""
        end_with(parent)
        control.close()
        os.environ.update(self.config.variables)
        name_process("surelane-stage")

    def _start(self, control: Connection, *, is_successor: bool) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            self._begin(parent, control)
            with self._connect() as connection:
                connection.send_bytes(msgspec.msgpack.encode(self._hello(parent)))
                serve(connection, self.config, is_successor=is_successor)
            status = 0
        except (EOFError, OSError) as error:  # the driver is gone, or has closed its end
            print(f"surelane: stage process {os.getpid()}: {error}", file=sys.stderr)
            status = 0 if isinstance(error, EOFError | ConnectionError) else 1
        except BaseException:  # noqa: BLE001  # a fork must not return into its parent's code
            traceback.print_exc()
        finally:
            os._exit(status)


def serve(connection: Connection, config: StageConfig, *, is_successor: bool) -> None:
    """Work on requests; returns when the driver closes the connection. This thread stages spans one after the other. A
    second thread reads for the archive: an epoch waits for that, while this thread may work on a span behind it.
    `is_successor`: of a process that has died, see `Stager`."""
    settle_collector()
    use_small_pages()
    inbox = Inbox(connection)
    threading.Thread(target=_keep, args=(inbox.keeps, config), name="archive", daemon=True).start()
    threading.Thread(target=inbox.receive, name="driver", daemon=True).start()
    spans = inbox.spans
    with Stager(config, spans.is_cancelled, spans.doing, is_successor=is_successor) as stager:
        while (step := spans.next_step()) is not None:
            match step:
                case Granted(arranged, tables):
                    spans.answer(stager.copy(arranged, tables))
                case Decode():
                    spans.answer(stager.decoded(step))
                case Request(wants_rows=True):
                    spans.answer(stager.rows(step))
                case Request():
                    found = stager.arrange(step)
                    if not isinstance(found, ArrangedSpan):
                        spans.answer(found)
                    elif (wanted := found.wanted()) is None:
                        spans.answer(stager.copy(found, {}))
                    else:
                        spans.put_aside(found, wanted)


def _keep(requests: Requests[Keep], config: StageConfig) -> None:
    try:
        archiving = Archiving(config.source, requests.is_cancelled, requests.doing)
        while (request := requests.next()) is not None:
            requests.answer(archiving.kept(request))
    except OSError:  # the driver is gone; the other thread ends this process
        return
    except BaseException:  # noqa: BLE001  # the driver notices only the end of this process
        traceback.print_exc()
        os._exit(1)
