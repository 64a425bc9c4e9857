"""The link between supervisor and worker: one socket, lines of text, each at most some tens of bytes.

    worker to supervisor      begin KEY MESSAGES LANE   a span of so many messages is in progress
                              doing KEY ACTIVITY        what is being done with it (`app.model.activity`)
                              end KEY                   it is not in progress any more
                              failed NAME               the worker ends with an exception of that class
                              done                      the worker ends in good order
    supervisor to worker      stop NAME                 stop at the epoch's end; NAME is the signal that asked for it

KEY tells spans apart that are in progress side by side; LANE is percent-encoded. An end of the socket that closes says
that its owner is gone: a worker without a supervisor stops at the epoch's end, too.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self
from urllib.parse import quote

from app.model.activity import Activity

#: far more than the longest line
READ_BYTES = 65536


class Lines:
    """What arrives in pieces, as whole lines; a line that never ended is never given."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, piece: bytes) -> Iterator[list[str]]:
        """The words of each line that is complete with `piece`."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace").split()


class Link:
    """The worker's end; safe to use from any thread. Without a file descriptor nobody listens: a lane in a test.

    A full socket makes the worker wait for its supervisor: no line is ever lost.
    """

    def __init__(self, fd: int | None = None) -> None:
        self._socket = None if fd is None else socket.socket(fileno=fd)
        self._lock = threading.Lock()
        if self._socket is not None:
            self._socket.set_inheritable(False)  # the JVM must not hold it open

    def begin(self, messages: int, lane: str) -> None:
        """This thread begins to process a span of at most so many messages."""
        self._say(f"begin {threading.get_native_id()} {messages} {quote(lane, safe='')}")

    def doing(self, activity: Activity) -> None:
        """What this thread does with its span from now on; without a span the line is ignored."""
        self._say(f"doing {threading.get_native_id()} {activity.value}")

    def end(self) -> None:
        """This thread is through with its span, or has given it up."""
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
        lines = Lines()
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
