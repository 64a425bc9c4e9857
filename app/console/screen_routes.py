"""Every screen as a page, as JSON and as a stream."""

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from app.console.feeds import Feeds
from app.console.page_maker import PageMaker
from app.console.screen import Screen
from app.console.screens import SCREENS
from app.console.web_requests import asked_by
from app.errors import SurelaneError, Unreachable


class ScreenRoutes:
    """The addresses below `/lanes`, `/api/lanes` and `/live/lanes`."""

    def __init__(self, maker: PageMaker, feeds: Feeds) -> None:
        self._maker, self._feeds = maker, feeds

    def routes(self) -> list[Route]:
        found = [Route("/lanes/{lane}", self._to_now)]
        for screen in SCREENS:
            found.append(Route(f"/lanes/{{lane}}{screen.path}", self._page_of(screen)))
            found.append(Route(f"/api/lanes/{{lane}}{screen.path}", self._json_of(screen)))
            if screen.seconds is not None:
                found.append(Route(f"/live/lanes/{{lane}}{screen.path}", self._live_of(screen, screen.seconds)))
        return found

    def _page_of(self, screen: Screen) -> Callable[[Request], Any]:
        async def page(request: Request) -> Response:
            lane, asked = self._maker.lane(request), asked_by(request)
            return await run_in_threadpool(self._maker.page, request.scope, screen, lane, asked)

        return page

    def _json_of(self, screen: Screen) -> Callable[[Request], Any]:
        async def read(request: Request) -> Response:
            lane, asked = self._maker.lane(request), asked_by(request)
            try:
                return JSONResponse(await run_in_threadpool(screen.reading, lane, asked))
            except SurelaneError as error:
                status = 503 if isinstance(error, Unreachable) else 409
                return JSONResponse({"error": error.message, "hint": error.hint}, status)

        return read

    def _live_of(self, screen: Screen, seconds: float) -> Callable[[Request], Any]:
        async def live(request: Request) -> Response:
            lane, asked = self._maker.lane(request), asked_by(request)

            def render() -> str:  # of the lane's present configuration
                return self._maker.live(screen, self._maker.lanes.get(lane.name) or lane, asked)

            return await self._feeds.answer(f"{request.url.path}?{asked.query}", render, seconds, self._maker.gone)

        return live

    async def _to_now(self, request: Request) -> Response:
        return RedirectResponse(f"/lanes/{self._maker.lane(request).name}/now", 303)
