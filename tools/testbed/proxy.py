"""A TCP proxy that delays: `python -S tools/testbed/proxy.py PORT MILLISECONDS` listens on a port, which it prints, and
passes each byte on to PORT after half of the round trip.

It delays without limiting: what comes meanwhile is read, kept with the time at which it is due, and sent then. Standard
library only, so that it starts at once; a process of its own, so that its CPU is known. A gigabyte costs about 0.7 CPU
seconds, a round trip through it without any delay 0.05 to 0.1 ms.
"""

import ctypes
import signal
import socket
import sys
import time
from contextlib import suppress
from queue import SimpleQueue
from threading import Semaphore, Thread

#: bytes of one read, and reads under way in one direction before nothing more is read: a gigabyte a second over 16 ms
CHUNK, MOST_UNDER_WAY = 1 << 18, 64
#: of Linux' prctl: nanoseconds that a timer may be late (by default 50,000), and the signal for the parent's death
_TIMER_SLACK, _DEATH_SIGNAL = 29, 1


class Direction:
    """What passes from one socket to another, later by so many seconds."""

    def __init__(self, source: socket.socket, sink: socket.socket, seconds: float) -> None:
        self._source, self._sink, self._seconds = source, sink, seconds
        #: when it is due, and the bytes; none: the end of the stream
        self._under_way = SimpleQueue[tuple[float, bytes]]()
        self._room = Semaphore(MOST_UNDER_WAY)
        source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for work in (self._read, self._send):
            Thread(target=work, daemon=True).start()

    def _read(self) -> None:
        data = b" "
        while data:
            try:
                data = self._source.recv(CHUNK)
            except OSError:
                data = b""
            self._room.acquire()
            self._under_way.put((time.perf_counter() + self._seconds, data))

    def _send(self) -> None:
        """Send what is due; where the other side is gone, the other direction ends too."""
        data = b" "
        with suppress(OSError):
            while data:
                due, data = self._under_way.get()
                self._room.release()
                time.sleep(max(0.0, due - time.perf_counter()))
                self._sink.sendall(data)
        with suppress(OSError):
            self._sink.shutdown(socket.SHUT_RDWR if data else socket.SHUT_WR)


def serve(listener: socket.socket, port: int, seconds: float) -> None:
    while True:
        client, _ = listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", port))
        except OSError:  # the server is down: the client sees the end, as it would without a proxy
            client.close()
            continue
        Direction(client, server, seconds)
        Direction(server, client, seconds)


if __name__ == "__main__":
    system = ctypes.CDLL(None)
    system.prctl(_TIMER_SLACK, 1, 0, 0, 0)
    system.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        serve(listening, int(sys.argv[1]), float(sys.argv[2]) / 2000)
