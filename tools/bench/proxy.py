"""A TCP proxy that delays: `python -S tools/bench/proxy.py PORT MILLISECONDS` listens on a port, which it prints, and
passes each byte on to PORT after half of the round trip.

It delays without limiting: what comes meanwhile is read, kept with the time at which it is due, and sent then. Standard
library only, so that it starts at once; a process of its own, so that its CPU is known. A gigabyte costs about 0.7 CPU
seconds, a round trip through it without any delay 0.05 to 0.1 ms.
"""

import ctypes
import select
import signal
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field

#: bytes of one read
CHUNK = 1 << 18
#: bytes under way in one direction before nothing more is read: a gigabyte a second over 16 ms
MOST_UNDER_WAY = 1 << 24
#: of Linux' prctl: nanoseconds that a timer may be late (by default 50,000), and the signal for the parent's death
_TIMER_SLACK, _DEATH_SIGNAL = 29, 1


@dataclass(eq=False)
class Half:
    """One direction of a connection."""

    source: socket.socket
    sink: socket.socket
    #: when it is due, and the bytes; None: the end of the stream
    under_way: deque[tuple[float, memoryview | None]] = field(default_factory=deque[tuple[float, memoryview | None]])
    size: int = 0
    has_ended: bool = False
    is_shut: bool = False

    def read(self, due: float) -> None:
        try:
            data = self.source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.under_way.append((due, memoryview(data) if data else None))
        self.size += len(data)
        self.has_ended = not data

    def send(self, now: float) -> None:
        """Send what is due, as far as the sink takes it."""
        while self.under_way and self.under_way[0][0] <= now:
            due, data = self.under_way.popleft()
            try:
                if data is None:
                    self.is_shut = True
                    return self.sink.shutdown(socket.SHUT_WR)
                sent = self.sink.send(data)
            except BlockingIOError:
                return self.under_way.appendleft((due, data))
            except OSError:  # the other side is gone: end this one too
                self.under_way.clear()
                self.has_ended = self.is_shut = True
                return None
            self.size -= sent
            if data[sent:]:
                return self.under_way.appendleft((due, data[sent:]))
        return None


class Proxy:
    def __init__(self, port: int, seconds: float) -> None:
        """`seconds`: how much later each byte arrives."""
        self._upstream, self._seconds = ("127.0.0.1", port), seconds
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._halves: dict[socket.socket, Half] = {}
        self.port: int = self._listener.getsockname()[1]

    def run(self) -> None:
        while True:
            now = time.perf_counter()
            halves = list(self._halves.values())
            reads = [half.source for half in halves if not half.has_ended and half.size < MOST_UNDER_WAY]
            blocked = [half.sink for half in halves if half.under_way and half.under_way[0][0] <= now]
            due = min((half.under_way[0][0] for half in halves if half.under_way), default=None)
            timeout = None if blocked or due is None else max(0.0, due - now)
            ready, _, _ = select.select([self._listener, *reads], blocked, [], timeout)
            now = time.perf_counter()
            for found in ready:
                if found is self._listener:
                    self._accept()
                else:
                    self._halves[found].read(now + self._seconds)
            for half in halves:
                half.send(time.perf_counter())
                if half.is_shut and (other := self._halves.get(half.sink)) and other.is_shut:
                    self._close(half)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self._upstream)
        except OSError:  # the server is down: the client sees the end, as it would without a proxy
            client.close()
            return
        for one, other in ((client, server), (server, client)):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._halves[one] = Half(one, other)

    def _close(self, half: Half) -> None:
        for end in (half.source, half.sink):
            del self._halves[end]
            end.close()


if __name__ == "__main__":
    system = ctypes.CDLL(None)
    system.prctl(_TIMER_SLACK, 1, 0, 0, 0)
    system.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    proxy = Proxy(int(sys.argv[1]), float(sys.argv[2]) / 2000)
    print(proxy.port, flush=True)
    proxy.run()
