"""The first page: the state of each lane."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.cli.rendering import Document
from app.console.feeds import Feeds
from app.console.lane_summaries import LaneSummaries, being_read
from app.console.page_maker import PageMaker

#: seconds between two readings while a page is open
OVERVIEW_SECONDS = 3.0


class OverviewRoutes:
    """`/`, its stream, and its JSON."""

    def __init__(self, maker: PageMaker, feeds: Feeds) -> None:
        self._maker, self._feeds = maker, feeds
        self._summaries = LaneSummaries()

    def routes(self) -> list[Route]:
        return [Route("/", self._page), Route("/live/", self._live), Route("/api/lanes", self._json)]

    def close(self) -> None:
        self._summaries.close()

    async def _page(self, request: Request) -> Response:
        """Names: the stream brings the rest, so that no target that is away keeps the page."""
        document = self._document(list(map(being_read, self._maker.lanes)))
        return self._maker.plain(request, "overview.html", document=document)

    async def _live(self, _: Request) -> Response:
        def render() -> str:
            document = self._document(self._summaries.newest(self._maker.lanes))
            return self._maker.plain_live("overview.html", document)

        return await self._feeds.answer("/", render, OVERVIEW_SECONDS, self._maker.gone)

    async def _json(self, _: Request) -> Response:
        return JSONResponse(self._document(await run_in_threadpool(self._summaries.all, self._maker.lanes)))

    def _document(self, lanes: list[Document]) -> Document:
        """The state of each lane; the lag is on each one's own page."""
        broken = [{"file": str(file), "fault": fault} for file, fault in self._maker.lanes.broken]
        return {"lanes": lanes, "broken": broken}
