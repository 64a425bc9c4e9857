"""The first page: the state of each lane."""

from concurrent.futures import ThreadPoolExecutor

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.cli.rendering import Document
from app.console.feeds import Feeds
from app.console.now_reading import now_without_lag
from app.console.page_maker import PageMaker
from app.console.parameters import Parameters
from app.console.served_lanes import ServedLane
from app.errors import SurelaneError

#: seconds between two readings while a page is open
OVERVIEW_SECONDS = 3.0
#: lanes that are read at one time
LANES_AT_ONCE = 8
#: what there is of each lane's document
_SUMMARY = (
    *("lane", "state", "generation", "epoch", "position", "pause", "last_error", "next", "in_doubt", "applied_at"),
    "freshness_seconds",
)


class OverviewRoutes:
    """`/`, its stream, and its JSON."""

    def __init__(self, maker: PageMaker, feeds: Feeds) -> None:
        self._maker, self._feeds = maker, feeds
        self._readers = ThreadPoolExecutor(LANES_AT_ONCE, thread_name_prefix="overview")

    def routes(self) -> list[Route]:
        return [Route("/", self._page), Route("/live/", self._live), Route("/api/lanes", self._json)]

    def close(self) -> None:
        self._readers.shutdown(wait=False)

    async def _page(self, request: Request) -> Response:
        document = await run_in_threadpool(self._read)
        return self._maker.plain(request, "overview.html", document=document)

    async def _live(self, _: Request) -> Response:
        def render() -> str:
            return self._maker.plain_live("overview.html", self._read())

        return await self._feeds.answer("/", render, OVERVIEW_SECONDS, self._maker.gone)

    async def _json(self, _: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._read))

    def _read(self) -> Document:
        """The state of each lane; the lag is on each one's own page."""
        lanes = self._maker.lanes
        broken = [{"file": str(file), "fault": fault} for file, fault in lanes.broken]
        return {"lanes": list(self._readers.map(_summary, lanes)), "broken": broken}


def _summary(lane: ServedLane) -> Document:
    try:
        found = now_without_lag(lane, Parameters({}, []))
    except SurelaneError as error:
        return {"lane": lane.name, "state": "not known", "trouble": str(error)}
    return {name: found[name] for name in _SUMMARY} | {"trouble": None}
