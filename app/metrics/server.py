"""A small HTTP server for /metrics, /healthz and /readyz, in its own threads."""

import errno
import http.server
import socket
import sys
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder

from app.errors import EnvironmentMissing
from app.metrics.health import Health, HealthAnswer

#: seconds that a client may take for its request: a stuck client must not keep a thread
REQUEST_TIMEOUT_SECONDS = 10
#: concurrent connections and threads; a scrape takes milliseconds
MAX_CONNECTIONS = 16
#: seconds that a new connection waits for the thread of the evicted one to end
_EVICTION_SECONDS = 1.0


class _Server(http.server.ThreadingHTTPServer):
    """Serves at most MAX_CONNECTIONS: a new one evicts the oldest, which is least likely to be a scrape."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], registry: CollectorRegistry, health: Health) -> None:
        self.registry = registry
        self.health = health
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        #: connection -> when it was accepted, the oldest first
        self._open: dict[socket.socket, float] = {}
        self._changing = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Process the request in a thread, after evicting the oldest connection where all slots are in use."""
        if len(self._open) >= MAX_CONNECTIONS:
            self._end(next(iter(self._accepted()), None))
        if not self._slots.acquire(timeout=_EVICTION_SECONDS):
            self.shutdown_request(request)
            return
        with self._changing:
            self._open[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def service_actions(self) -> None:
        """Each half second: end connections older than REQUEST_TIMEOUT_SECONDS, even if bytes still arrive."""
        latest = time.monotonic() - REQUEST_TIMEOUT_SECONDS
        for request, at in self._accepted().items():
            if at < latest:
                self._end(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of closed connections."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def _accepted(self) -> dict[socket.socket, float]:
        with self._changing:
            return dict(self._open)

    def _end(self, request: socket.socket | None) -> None:
        with suppress(OSError):  # the connection has ended already
            if request is not None:
                request.shutdown(socket.SHUT_RDWR)

    def _forget(self, request: socket.socket) -> None:
        with self._changing:
            self._open.pop(request, None)
        self._slots.release()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]  # only _Server makes these
    timeout = REQUEST_TIMEOUT_SECONDS

    def do_GET(self) -> None:  # name required by http.server
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._answer(HTTPStatus.OK, content_type, encode(self.server.registry))
        elif path == "/healthz":
            self._say(self.server.health.live())
        elif path == "/readyz":
            self._say(self.server.health.ready())
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"/metrics, /healthz, /readyz\n")

    def _say(self, answer: HealthAnswer) -> None:
        status = HTTPStatus.OK if answer.ok else HTTPStatus.SERVICE_UNAVAILABLE
        self._answer(status, "text/plain; charset=utf-8", f"{answer.reason}\n".encode())

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the signature of http.server
        """Log no requests: there is a scrape every few seconds."""


class MetricsServer:
    """A running server; `port` is the actual one when 0 was requested."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self.port = int(server.server_address[1])
        self._thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(host: str, port: int, registry: CollectorRegistry | None, health: Health) -> MetricsServer:
    """Serve until `stop`; raises EnvironmentMissing when the port is taken."""
    try:
        return MetricsServer(_Server((host, port), registry or REGISTRY, health))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
            raise
        raise EnvironmentMissing(
            f"metrics cannot be served on {host}:{port}: {error.strerror}",
            hint="choose another metrics.port (SURELANE_METRICS__PORT), or 0 for none; is another lane running here?",
        ) from error
