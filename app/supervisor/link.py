"""The link between supervisor and worker: one socket, lines of text, each at most some tens of bytes.

    worker to supervisor      begin KEY MESSAGES LANE   a span of so many messages is in progress
                              doing KEY ACTIVITY        what is being done with it (`app.model.activity`)
                              busy KEY                  the server works for it, or waits for a lock
                              end KEY                   it is not in progress any more
                              failed NAME               the worker ends with an exception of that class
                              done                      the worker ends in good order
    supervisor to worker      stop NAME                 stop at the epoch's end; NAME is the signal that asked for it

KEY tells spans apart that are in progress side by side; LANE is percent-encoded. An end of the socket that closes says
that its owner is gone: a worker without a supervisor stops at the epoch's end, too.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import quote

from app.model.activity import Activity

#: far more than the longest line
READ_BYTES = 65536


class LineBuffer:
    """What arrives in pieces, as whole lines; a line that never ended is never given."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, piece: bytes) -> Iterator[list[str]]:
        """The words of each line that is complete with `piece`."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace").split()


@dataclass(frozen=True)
class AtServer:
    """A span whose thread waits for a database."""

    key: int
    lane: str


@dataclass
class _Span:
    lane: str
    activity: Activity = Activity.FETCH
    #: monotonic
    since: float = 0.0
    #: whether a lock of another session was seen to keep it waiting
    waited: bool = False


class Link:
    """The worker's end; safe to use from any thread. Without a file descriptor nobody listens: a lane in a test.

    A full socket makes the worker wait for its supervisor: no line is ever lost.
    """

    def __init__(self, fd: int | None = None) -> None:
        self._socket = None if fd is None else socket.socket(fileno=fd)
        self._lock = threading.Lock()
        #: spans in progress by thread
        self._spans: dict[int, _Span] = {}
        if self._socket is not None:
            self._socket.set_inheritable(False)  # the JVM must not hold it open

    def begin(self, messages: int, lane: str) -> None:
        """This thread begins to process a span of at most so many messages."""
        self._spans[threading.get_native_id()] = _Span(lane)
        self._say(f"begin {threading.get_native_id()} {messages} {quote(lane, safe='')}")

    def doing(self, activity: Activity) -> None:
        """What this thread does with its span from now on; without a span the line is ignored."""
        span = self._spans.get(threading.get_native_id())
        if span is not None:
            span.activity, span.since = activity, time.monotonic()
        self._say(f"doing {threading.get_native_id()} {activity.value}")

    @contextmanager
    def at_database(self) -> Iterator[None]:
        """Inside, this thread waits for a database; then it does what it did before."""
        span = self._spans.get(threading.get_native_id())
        if span is None or span.activity is Activity.SERVER:
            yield
            return
        before = span.activity
        self.doing(Activity.SERVER)
        try:
            yield
        finally:
            self.doing(before)

    def waited(self) -> bool:
        """Whether this thread's span was seen to wait for a lock of another session."""
        span = self._spans.get(threading.get_native_id())
        return span is not None and span.waited

    def at_server(self, seconds: float) -> list[AtServer]:
        """The spans of all threads that have waited for a database for so long."""
        latest = time.monotonic() - seconds
        spans = list(self._spans.items())
        return [
            AtServer(key, span.lane) for key, span in spans if span.activity is Activity.SERVER and span.since <= latest
        ]

    def busy(self, key: int, *, waits: bool) -> None:
        """The server works for that thread's span; `waits`: for a lock."""
        span = self._spans.get(key)
        if span is not None:
            span.waited = span.waited or waits
            self._say(f"busy {key}")

    def still(self) -> None:
        """This thread waits for a task, whose time is looked after elsewhere."""
        self._say(f"busy {threading.get_native_id()}")

    def end(self) -> None:
        """This thread is through with its span, or has given it up."""
        self._spans.pop(threading.get_native_id(), None)
        self._say(f"end {threading.get_native_id()}")

    def on_stop(self, stop: Callable[[str], None]) -> None:
        """Call `stop` once, with the reason, when the supervisor wants this worker to stop or is gone."""
        if self._socket is not None:
            listen = threading.Thread(target=self._listen, args=(self._socket, stop), name="link", daemon=True)
            listen.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._say("done" if kind is None else f"failed {kind.__name__}")

    def _listen(self, listening: socket.socket, stop: Callable[[str], None]) -> None:
        lines = LineBuffer()
        while piece := _received(listening):
            for words in lines.of(piece):
                if words[:1] == ["stop"]:
                    stop(words[-1])
                    return
        stop("the supervisor is gone")

    def _say(self, line: str) -> None:
        if self._socket is None:
            return
        with self._lock:
            try:
                self._socket.sendall(f"{line}\n".encode())
            except OSError:
                return  # the supervisor is gone, which `_listen` notices


def _received(listening: socket.socket) -> bytes:
    """What has come; nothing when the other side is gone."""
    try:
        return listening.recv(READ_BYTES)
    except OSError:
        return b""
