"""The console as a web application: its routes, and what happens beside them."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from app.console.action_routes import ActionRoutes
from app.console.feeds import Feeds
from app.console.gate import Gate
from app.console.login_routes import LoginRoutes
from app.console.logins import LoginRules, Logins
from app.console.message_bytes import message_route
from app.console.open_api import open_api
from app.console.overview_routes import OverviewRoutes
from app.console.page_maker import PageMaker
from app.console.parameters import AddressInvalid, NoSuchThing
from app.console.recovery_places import RecoveryPlaces
from app.console.screen_routes import ScreenRoutes
from app.console.served_lanes import ServedLanes
from app.console.web_requests import Forbidden
from app.installation import version

log = structlog.get_logger()

#: seconds between two looks for connections that no page uses, and for configurations that were changed
HOUSEKEEPING_SECONDS = 10.0
STATIC = Path(__file__).resolve().parent / "static"


@dataclass(frozen=True, kw_only=True)
class ConsoleOptions:
    """What the command line asks for."""

    lanes: ServedLanes
    login: LoginRules
    allow_actions: bool
    #: for recoveries that a page starts
    places: RecoveryPlaces = field(default_factory=RecoveryPlaces)
    #: names by which the console is reached
    hosts: Collection[str]


class Console:
    """The application."""

    def __init__(self, options: ConsoleOptions) -> None:
        self._options, self._lanes = options, options.lanes
        self._logins = Logins(options.login)
        self._maker = PageMaker(options.lanes, options.places, allow_actions=options.allow_actions)
        feeds = Feeds()
        self._overview = OverviewRoutes(self._maker, feeds)
        self._screens = ScreenRoutes(self._maker, feeds)

    def app(self) -> Gate:
        options = self._options
        routes = [
            *self._overview.routes(),
            *LoginRoutes(self._maker, self._logins, options.login).routes(),
            *ActionRoutes(self._maker, options.places, allow_actions=options.allow_actions).routes(),
            message_route(self._maker),
            *self._screens.routes(),
            Route("/api/openapi.json", _open_api),
            Route("/healthz", _healthz),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        handlers: Mapping[Any, Any] = {
            404: self._not_found,
            NoSuchThing: self._not_found,
            AddressInvalid: self._not_understood,
            Forbidden: self._forbidden,
        }
        app = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        return Gate(app, self._logins, options.hosts)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        keeping = asyncio.create_task(self._keep_house())
        try:
            yield
        finally:
            keeping.cancel()
            self._lanes.close()
            self._overview.close()

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            await run_in_threadpool(self._lanes.close_idle)
            await run_in_threadpool(self._lanes.refresh)

    async def _not_found(self, request: Request, error: Exception) -> Response:
        message = str(error) if isinstance(error, NoSuchThing) else "there is no such page"
        return self._maker.error(request, 404, message)

    async def _not_understood(self, request: Request, error: Exception) -> Response:
        return self._maker.error(request, 400, str(error))

    async def _forbidden(self, request: Request, error: Exception) -> Response:
        client = request.client.host if request.client else None
        log.warning("console action refused", because=str(error), path=request.url.path, client=client)
        return self._maker.error(request, 403, f"{error}. Nothing was changed")


async def _open_api(_: Request) -> Response:
    return JSONResponse(open_api(version()))


async def _healthz(_: Request) -> Response:
    return PlainTextResponse("ok\n")
