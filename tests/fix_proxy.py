"""A TCP proxy between a lane and a server, to take the network away and give it back.

cut      both sides see the connection end; new ones are refused
lose     only the client sees it end: the server keeps its half, with the locks and the transaction it holds
stall    nothing gets through, neither side gets an error
forget   one statement is lost: before the server gets it, or its answer, when the server has done it; then as `cut`
limit    so many bytes a second get from each client to the server
restore  the network is as it was; what was cut stays cut
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import URL, make_url

Answer = TypeVar("Answer")

LOOPBACK = "127.0.0.1"
#: an answer on the loopback takes microseconds; this is for a machine that is busy
CALL_SECONDS = 90.0
CHUNK_BYTES = 1 << 16
#: closing throws away what was not sent and resets the connection, as a broken network path does
_RESET = struct.pack("ii", 1, 0)


@dataclass(eq=False)
class _Link:
    """The two halves of one connection."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    #: what was sent, as far as a loss waits for it
    has_sent: set[bytes] = field(default_factory=set)
    #: the server's next answer does not arrive
    loses_answer: "_Loss | None" = None


@dataclass(frozen=True)
class _Loss:
    words: bytes
    is_done: bool
    #: words that are sent before them on the same connection
    after: bytes | None
    #: whether all connections end
    cuts: bool


class Proxy:
    """Listens on a port of its own and passes everything on to `upstream`; its loop runs in a thread of its own."""

    def __init__(self, upstream: tuple[str, int], limit: int | None = None) -> None:
        """`limit`: bytes a second of each connection, on their way to the server."""
        self._upstream, self._limit = upstream, limit
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._links: set[_Link] = set()
        #: halves that the server still takes for connections
        self._lost: list[asyncio.StreamWriter] = []
        self._refusing = False
        #: the statement to lose
        self._loss: _Loss | None = None
        #: connections that were turned away; grows while a client tries to come back
        self.refused = 0
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, LOOPBACK, 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def url(self, url: str | URL) -> URL:
        """A database URL that takes the way through here."""
        return make_url(url).set(host=LOOPBACK, port=self.port)

    @property
    def connections(self) -> int:
        """How many connections are open on both sides."""
        return len(self._links)

    def cut(self) -> None:
        """End every connection for both sides and refuse new ones until `restore`."""
        self._call(self._cut(lose=False))

    def lose(self) -> None:
        """End every connection for the client only and refuse new ones until `restore`."""
        self._call(self._cut(lose=True))

    def stall(self) -> None:
        """Hold back everything that is sent, in both directions, until `restore`."""
        self._call(self._let_flow(flowing=False))

    def forget(self, words: str, *, is_done: bool, after: str | None = None, cuts: bool = True) -> None:
        """Lose the next statement that contains these words, on a connection that sent `after` before. `is_done`: the
        server executes it, and its answer is lost; else the server does not get it. Then every connection ends, as by
        `cut`; without `cuts` only this one."""
        self._loss = _Loss(words.encode(), is_done, None if after is None else after.encode(), cuts)

    @property
    def has_forgotten(self) -> bool:
        """Whether that statement was sent."""
        return self._loss is None

    def restore(self) -> None:
        """Take connections and pass data on again."""
        self._call(self._let_flow(flowing=True))

    def move_to(self, upstream: tuple[str, int]) -> None:
        """Another server is at this place from now on."""
        self.cut()
        self._upstream = upstream
        self.restore()

    def close(self) -> None:
        """End everything, also the halves that were lost."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, what: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(CALL_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            self.refused += 1
            return _reset(writer)
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._upstream)
        except OSError:  # the server is down: the client sees what it would see without us
            return _reset(writer)
        link = _Link(writer, server_writer)
        self._links.add(link)
        try:
            there = self._pump(reader, server_writer, self._limit, link)
            back = self._pump(server_reader, writer, None, link)
            await asyncio.gather(there, back)
        finally:
            if link in self._links:
                self._links.remove(link)
                _reset(server_writer)
            _reset(writer)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, limit: int | None, link: _Link
    ) -> None:
        """Pass on until one side ends; then end the other, so that its pump ends too."""
        try:
            while data := await source.read(CHUNK_BYTES):
                await self._flowing.wait()
                if await self._is_lost(data, link, to_server=sink is link.server):
                    return
                sink.write(data)
                await sink.drain()
                if limit is not None:
                    await asyncio.sleep(len(data) / limit)
        except OSError:
            pass  # ended by the other side, or by us
        finally:
            if not any(sink is lost for lost in self._lost):
                sink.close()

    async def _is_lost(self, data: bytes, link: _Link, *, to_server: bool) -> bool:
        """Whether the data go no further, since they are what is to be lost."""
        if to_server:
            loss = self._met(data, link)
            if loss is not None and loss.is_done:
                link.loses_answer = loss
                return False
        else:
            loss = link.loses_answer
        if loss is None:
            return False
        if loss.cuts:
            await self._cut(lose=False)
        else:
            _reset(link.client)
            _reset(link.server)
        return True

    def _met(self, data: bytes, link: _Link) -> _Loss | None:
        """What is to be lost, if these data are that."""
        loss = self._loss
        if loss is None:
            return None
        is_ready = loss.after is None or loss.after in link.has_sent
        if loss.after is not None and loss.after in data:
            link.has_sent.add(loss.after)
        if not is_ready or loss.words not in data:
            return None
        self._loss = None
        return loss

    async def _cut(self, *, lose: bool) -> None:
        self._refusing = True
        links, self._links = self._links, set()
        for link in links:
            if lose:
                self._lost.append(link.server)
            else:
                _reset(link.server)
            _reset(link.client)

    async def _let_flow(self, *, flowing: bool) -> None:
        if flowing:
            self._refusing = False
            self._flowing.set()
        else:
            self._flowing.clear()

    async def _close(self) -> None:
        self._server.close()
        self._flowing.set()
        await self._cut(lose=False)
        for half in self._lost:
            _reset(half)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection at once, without a farewell."""
    raw: socket.socket | None = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


@contextmanager
def proxy_to(url: str | URL, limit: int | None = None) -> Iterator[Proxy]:
    """A proxy in front of the server that a database URL names. See Proxy for `limit`."""
    parsed = make_url(url)
    assert parsed.host is not None
    assert parsed.port is not None
    proxy = Proxy((parsed.host, parsed.port), limit)
    try:
        yield proxy
    finally:
        proxy.close()
