"""The link between supervisor and worker: a socket with lines of text of some tens of bytes each.

    worker to supervisor      begin KEY MESSAGES LANE   a span of so many messages begins
                              doing KEY ACTIVITY        the activity in the span (`app.model.activity`)
                              busy KEY                  the server works for the span, or waits for a lock
                              end KEY                   the span is done or given up
                              failed NAME               the worker ends with an exception of that class
                              done                      the worker ends without an error
    supervisor to worker      stop NAME                 stop at the epoch's end; NAME is the signal that was received

KEY identifies one of several concurrent spans; LANE is percent-encoded. A closed socket means that the other process
has ended: a worker without a supervisor stops at the epoch's end, too.
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
    """Joins received pieces to complete lines; an incomplete line is not returned."""

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
    #: monotonic seconds of the last change of activity
    since: float = 0.0
    #: whether the server watch saw it wait for a lock of another session
    waited: bool = False


class Link:
    """The worker's end; safe to use from any thread. Without a file descriptor it sends nothing: a lane in a test.

    No line is lost: at a full socket the worker waits for its supervisor.
    """

    def __init__(self, fd: int | None = None) -> None:
        self._socket = None if fd is None else socket.socket(fileno=fd)
        self._lock = threading.Lock()
        #: spans in progress by native thread id
        self._spans: dict[int, _Span] = {}
        if self._socket is not None:
            self._socket.set_inheritable(False)  # the JVM must not keep the socket open

    def begin(self, messages: int, lane: str) -> None:
        """This thread begins a span of at most `messages` messages."""
        self._spans[threading.get_native_id()] = _Span(lane)
        self._say(f"begin {threading.get_native_id()} {messages} {quote(lane, safe='')}")

    def doing(self, activity: Activity) -> None:
        """Report the activity of this thread from now on; the supervisor ignores it without a span."""
        span = self._spans.get(threading.get_native_id())
        if span is not None:
            span.activity, span.since = activity, time.monotonic()
        self._say(f"doing {threading.get_native_id()} {activity.value}")

    @contextmanager
    def at_database(self) -> Iterator[None]:
        """Inside, this thread's activity is SERVER; then the one before."""
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
        """Whether this thread's span has waited for a lock of another session, as far as the server watch saw."""
        span = self._spans.get(threading.get_native_id())
        return span is not None and span.waited

    def at_server(self, seconds: float) -> list[AtServer]:
        """The spans of all threads that have waited for a database for at least `seconds`."""
        latest = time.monotonic() - seconds
        spans = list(self._spans.items())
        return [
            AtServer(key, span.lane) for key, span in spans if span.activity is Activity.SERVER and span.since <= latest
        ]

    def busy(self, key: int, *, waits: bool) -> None:
        """The server works for the span of thread `key`; `waits`: the session waits for a lock."""
        span = self._spans.get(key)
        if span is not None:
            span.waited = span.waited or waits
            self._say(f"busy {key}")

    def still(self) -> None:
        """This thread waits for a task, which has its own timeout: reset the watchdog's count."""
        self._say(f"busy {threading.get_native_id()}")

    def end(self) -> None:
        """This thread has finished its span or given it up."""
        self._spans.pop(threading.get_native_id(), None)
        self._say(f"end {threading.get_native_id()}")

    def on_stop(self, stop: Callable[[str], None]) -> None:
        """Call `stop` once, with the reason, when the supervisor sends a stop request or has ended."""
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
                return  # the supervisor has ended; `_listen` reports it


def _received(listening: socket.socket) -> bytes:
    """Received bytes; empty when the other process has ended."""
    try:
        return listening.recv(READ_BYTES)
    except OSError:
        return b""
