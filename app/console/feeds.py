"""What open pages get: a page's content again whenever it changes, as server-sent events.

All viewers of one address share one feed. It reads while there is a viewer, and ends with the last one.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

log = structlog.get_logger()

#: streams that the console serves at one time; each is an open connection
MAX_VIEWERS = 100
#: seconds without a change after which a comment keeps the connection open
SILENCE_SECONDS = 15.0
#: seconds before a feed's first reading: its viewer has just got the page, and may leave it as fast
SETTLE_SECONDS = 0.3
#: milliseconds after which a browser connects anew
RETRY_MS = 2000
_SILENCE = b": still here\n\n"


class TooManyViewers(Exception):
    """The console serves no further stream."""


class Feed:
    """The content of one address, for its viewers."""

    def __init__(self, render: Callable[[], str], seconds: float) -> None:
        """`render`: reads and renders, in a thread; raises nothing."""
        self._render, self._seconds = render, seconds
        self._content: str | None = None
        self._changed = asyncio.Condition()
        self._version = 0
        self.viewers = 0

    async def run(self) -> None:
        """Read until cancelled."""
        seen = b""
        await asyncio.sleep(min(SETTLE_SECONDS, self._seconds))
        while True:
            content = await run_in_threadpool(self._render)
            digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()
            if digest != seen:
                seen = digest
                async with self._changed:
                    self._content, self._version = content, self._version + 1
                    self._changed.notify_all()
            await asyncio.sleep(self._seconds)

    async def stream(self) -> AsyncIterator[bytes]:
        """Events for one viewer; one that is slow misses contents in between, never the newest."""
        yield f"retry: {RETRY_MS}\n\n".encode()
        version = 0
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS), self._changed:
                    await self._changed.wait_for(lambda: self._version > version)  # noqa: B023  # awaited here
                    version, content = self._version, self._content or ""
            except TimeoutError:
                yield _SILENCE
                continue
            yield event(content)


class Feeds:
    """The feeds of the console, by address."""

    def __init__(self) -> None:
        self._feeds: dict[str, tuple[Feed, asyncio.Task[None]]] = {}

    @property
    def viewers(self) -> int:
        return sum(feed.viewers for feed, _ in self._feeds.values())

    async def answer(
        self, address: str, render: Callable[[], str], seconds: float, gone: Callable[[str], str]
    ) -> Response:
        """The stream of an address for one viewer. `gone`: makes the content where `render` fails."""

        def rendered() -> str:
            try:
                return render()
            except Exception:  # a stream goes on; the page says that something is wrong
                log.exception("a page could not be read", page=address)
                return gone("an unforeseen error: see the console's log")

        stack = AsyncExitStack()
        try:
            feed = await stack.enter_async_context(self.viewing(address, rendered, seconds))
        except TooManyViewers:
            return PlainTextResponse("too many pages are open: close one\n", 503)
        return EventStream(feed.stream(), stack)

    @asynccontextmanager
    async def viewing(self, address: str, render: Callable[[], str], seconds: float) -> AsyncIterator[Feed]:
        """The feed of an address, for one viewer. Raises TooManyViewers."""
        if self.viewers >= MAX_VIEWERS:
            raise TooManyViewers
        feed, task = self._feeds.get(address) or self._begun(address, render, seconds)
        feed.viewers += 1
        try:
            yield feed
        finally:
            feed.viewers -= 1
            if not feed.viewers:
                self._feeds.pop(address, None)
                task.cancel()

    def _begun(self, address: str, render: Callable[[], str], seconds: float) -> tuple[Feed, asyncio.Task[None]]:
        feed = Feed(render, seconds)
        found = self._feeds[address] = (feed, asyncio.create_task(feed.run()))
        return found


class EventStream(StreamingResponse):
    """A stream that leaves its feed when its viewer goes, however that is."""

    media_type = "text/event-stream"

    def __init__(self, content: AsyncIterator[bytes], stack: AsyncExitStack) -> None:
        """`stack`: ends the viewing."""
        super().__init__(content, headers={"x-accel-buffering": "no"})
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            with suppress(asyncio.CancelledError):
                await super().__call__(scope, receive, send)


def event(content: str) -> bytes:
    """A server-sent event; a line of the content may end in any way that the format knows."""
    lines = content.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return ("event: content\n" + "".join(f"data: {line}\n" for line in lines) + "\n").encode("utf-8", "replace")
