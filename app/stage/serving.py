"""What a Spark task does for as long as the lane runs: it keeps a process that stages what the driver asks for.

The task's own process (PySpark's Python worker) starts that process, sees how it ends, says so to the driver and starts
another one: no death of it costs Spark a task. When the driver closes its connection, the task is done.
"""

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
from app.process import end_with, ends_within, name_process
from app.stage.archiving import Archiving
from app.stage.inbox import Inbox, Requests
from app.stage.request import Decode, Keep, StoredMessage
from app.stage.stager import StageConfig, Stager
from app.stage.wire import keep_alive

#: seconds that a stage process has to live for the next one to be started at once
_AGAIN_SECONDS = 0.2
#: seconds between two looks at the kernel's counter
_LOOK_SECONDS = 1.0
#: seconds from the end of one connection of the driver's to the end of the other one
_CLOSING_SECONDS = 2.0


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message of each connection."""

    #: of the resident job
    slot: int
    host: str
    pid: int
    #: the task's own process, which says how stage processes end
    task: int

    @property
    def watches(self) -> bool:
        """Whether this is of the task's own process."""
        return self.pid == self.task


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """A stage process is gone."""

    pid: int
    #: exit status, negative for a signal
    status: int
    #: whether the kernel killed something for want of memory meanwhile
    for_memory: bool


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """End a stage process that hangs: sent to the task's own process."""

    pid: int


class Try(msgspec.Struct, frozen=True, tag="try"):
    """Decode a message, and send it through the user's function, in a process of its own: sent to the task's own."""

    message: StoredMessage
    #: that are no hang
    seconds: float


class Tried(msgspec.Struct, frozen=True, tag="tried"):
    """What ended that process; None: it has survived."""

    cause: str | None


_ORDERS = msgspec.msgpack.Decoder(Kill | Try)


@dataclass(frozen=True)
class Task:
    """What Spark carries to the executor."""

    slot: int
    #: of the driver
    address: tuple[str, int]
    key: bytes
    told: StageConfig

    def __call__(self, nothing: Iterable[object]) -> None:
        """Serve until the driver closes the connection."""
        for _ in nothing:  # a worker is used again only when its task has read its input to the end
            pass
        end_with(os.getppid())  # PySpark's daemon, which ends with its executor
        with self._connect() as control:
            control.send_bytes(msgspec.msgpack.encode(self._hello(os.getpid())))
            while True:
                begin = time.monotonic()
                ended = self._attended(control)
                if ended is None:
                    return
                with suppress(OSError):
                    control.send_bytes(msgspec.msgpack.encode(ended))
                if time.monotonic() - begin < _AGAIN_SECONDS:
                    time.sleep(_AGAIN_SECONDS)

    def _attended(self, control: Connection) -> Ended | None:
        """Start a stage process and wait for its end; None: the driver has closed the connection."""
        pid = self._start(control)
        ended, oom = os.pidfd_open(pid), OomWatch()
        try:
            while True:
                ready, _, _ = select.select([ended, control], [], [], _LOOK_SECONDS)
                if not ready:
                    oom.look()
                    continue
                if ended in ready:
                    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    if status == 0 and control.poll(_CLOSING_SECONDS):  # in good order, for the driver has gone before
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
            case _:  # a process that is gone
                return

    def _tried(self, control: Connection, wanted: Try) -> str | None:
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            try:
                self._begin(parent, control)
                with Stager(self.told, lambda _: None, lambda: False) as stager:
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
        """Of a process that was forked."""
        end_with(parent)
        control.close()
        os.environ.update(self.told.variables)
        name_process("surelane-stage")

    def _start(self, control: Connection) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            self._begin(parent, control)
            with self._connect() as connection:
                connection.send_bytes(msgspec.msgpack.encode(self._hello(parent)))
                serve(connection, self.told)
            status = 0
        except (EOFError, OSError) as error:  # the driver is gone, or has closed its end
            print(f"surelane: stage process {os.getpid()}: {error}", file=sys.stderr)
            status = 0 if isinstance(error, EOFError | ConnectionError) else 1
        except BaseException:  # noqa: BLE001  # it must not come back to where it was forked
            traceback.print_exc()
        finally:
            os._exit(status)


def serve(connection: Connection, told: StageConfig) -> None:
    """Work on what is asked for; returns when the driver closes the connection. Spans are staged one after the other by
    this thread. What the archive asks for is read by a thread of its own: an epoch waits for it, while this thread may
    wait for the tables of a span behind that epoch."""
    settle_collector()
    inbox = Inbox(connection)
    threading.Thread(target=_keep, args=(inbox.keeps, told), name="archive", daemon=True).start()
    threading.Thread(target=inbox.receive, name="driver", daemon=True).start()
    spans = inbox.spans
    with Stager(told, inbox.ask, spans.is_cancelled, spans.doing) as stager:
        while (request := spans.next()) is not None:
            if isinstance(request, Decode):
                spans.answer(stager.decoded(request))
            else:
                spans.answer(stager.rows(request) if request.wants_rows else stager.stage(request))


def _keep(requests: Requests[Keep], told: StageConfig) -> None:
    try:
        archiving = Archiving(told.source, requests.is_cancelled, requests.doing)
        while (request := requests.next()) is not None:
            requests.answer(archiving.kept(request))
    except OSError:  # the driver is gone; the other thread ends this process
        return
    except BaseException:  # noqa: BLE001  # the driver hears of the end of this process only
        traceback.print_exc()
        os._exit(1)
