"""The console as a web application: pages, JSON and streams of every screen, the login, and the actions."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import structlog
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.cli.operator_access import quarantine
from app.cli.rendering import Document, printable
from app.config.redaction import Redaction
from app.console import actions, readings
from app.console.feeds import EventStream, Feeds, TooManyViewers
from app.console.gate import Gate, cookie_of, forgotten_cookie, session_of
from app.console.logins import MAX_NAME_CHARACTERS, LoginRules, Logins, Session, is_own_form, is_own_origin
from app.console.open_api import open_api
from app.console.pages import Pages
from app.console.parameters import AddressInvalid, NoSuchThing, Parameters
from app.console.screens import SCREENS, Screen
from app.console.served_lanes import ServedLane, ServedLanes
from app.console.web_requests import asked_by, own_path, read_form
from app.errors import Refused, SurelaneError, Unreachable
from app.installation import version

log = structlog.get_logger()

#: seconds between two looks for connections that no page uses
HOUSEKEEPING_SECONDS = 10.0
#: seconds after which a wrong token is answered; one at a time
WRONG_TOKEN_SECONDS = 1.0
#: seconds between two readings of the overview while a page is open
OVERVIEW_SECONDS = 3.0
#: lanes that the overview reads at one time
LANES_AT_ONCE = 8
#: a longer address of an outcome is not understood everywhere
MAX_OUTCOME_CHARACTERS = 4_000
#: what the overview has of each lane's document
_SUMMARY = (
    *("lane", "state", "generation", "epoch", "position", "pause", "last_error", "next", "in_doubt", "applied_at"),
    "freshness_seconds",
)
STATIC = Path(__file__).resolve().parent / "static"


class _Forbidden(Exception):
    """An action without a login, or that no page of this console has sent."""


@dataclass(frozen=True, kw_only=True)
class ConsoleOptions:
    """What the command line asks for."""

    lanes: ServedLanes
    login: LoginRules
    allow_actions: bool
    #: names by which the console is reached
    hosts: Collection[str]


class Console:
    """The handlers of requests."""

    def __init__(self, options: ConsoleOptions) -> None:
        self._options, self._lanes = options, options.lanes
        self._logins, self._pages, self._feeds = Logins(options.login), Pages(), Feeds()
        self._wrong_token = asyncio.Lock()
        self._readers = ThreadPoolExecutor(LANES_AT_ONCE, thread_name_prefix="overview")

    def app(self) -> Gate:
        routes: list[Any] = [
            Route("/", self._overview),
            Route("/live/", self._live_overview),
            Route("/api/lanes", self._lanes_json),
            Route("/api/openapi.json", self._open_api),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/logout", self._logout, methods=["POST"]),
            Route("/healthz", _healthz),
            Route("/lanes/{lane}", self._to_now),
            Route("/lanes/{lane}/in-doubt/transaction", self._answer, methods=["POST"]),
            Route("/lanes/{lane}/quarantine", self._change_entries, methods=["POST"]),
            Route("/lanes/{lane}/quarantine/{id:int}", self._change_entry, methods=["POST"]),
            Route("/lanes/{lane}/quarantine/{id:int}/{part}", self._raw),
        ]
        for screen in SCREENS:
            routes.append(Route(f"/lanes/{{lane}}{screen.path}", self._page_of(screen)))
            routes.append(Route(f"/api/lanes/{{lane}}{screen.path}", self._json_of(screen)))
            if screen.seconds is not None:
                routes.append(Route(f"/live/lanes/{{lane}}{screen.path}", self._live_of(screen)))
        routes.append(Mount("/static", StaticFiles(directory=STATIC)))
        handlers: Mapping[Any, Any] = {
            404: self._not_found,
            NoSuchThing: self._not_found,
            AddressInvalid: self._not_understood,
            _Forbidden: self._forbidden,
        }
        app = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        return Gate(app, self._logins, self._options.hosts)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        keeping = asyncio.create_task(self._keep_house())
        try:
            yield
        finally:
            keeping.cancel()
            self._lanes.close_idle(0)
            self._readers.shutdown(wait=False)

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            await run_in_threadpool(self._lanes.close_idle)

    # --- screens -----------------------------------------------------------------------------------------------------

    def _page_of(self, screen: Screen) -> Callable[[Request], Any]:
        async def page(request: Request) -> Response:
            lane, asked = self._lane(request), asked_by(request)
            return await run_in_threadpool(self._page, request.scope, screen, lane, asked)

        return page

    def _json_of(self, screen: Screen) -> Callable[[Request], Any]:
        async def read(request: Request) -> Response:
            lane, asked = self._lane(request), asked_by(request)
            try:
                return JSONResponse(await run_in_threadpool(screen.reading, lane, asked))
            except SurelaneError as error:
                return _json_error(error)

        return read

    def _live_of(self, screen: Screen) -> Callable[[Request], Any]:
        async def live(request: Request) -> Response:
            lane, asked = self._lane(request), asked_by(request)

            def render() -> str:
                return self._live(screen, lane, asked)

            return await self._stream(f"{request.url.path}?{asked.query}", render, screen.seconds or 1.0)

        return live

    async def _stream(self, address: str, render: Callable[[], str], seconds: float) -> Response:
        def rendered() -> str:
            try:
                return render()
            except Exception:  # a stream goes on; the page says that something is wrong
                log.exception("a page could not be read", page=address)
                return self._gone("an unforeseen error: see the console's log")

        stack = AsyncExitStack()
        try:
            feed = await stack.enter_async_context(self._feeds.viewing(address, rendered, seconds))
        except TooManyViewers:
            return PlainTextResponse("too many pages are open: close one\n", 503)
        return EventStream(feed.stream(), stack)

    def _page(
        self, scope: Scope, screen: Screen, lane: ServedLane, asked: Parameters, status: int = 200, **more: Any
    ) -> Response:
        """The page with what can be read, or with why not."""
        values = self._values(scope, screen, lane, asked) | more
        try:
            document = screen.first(lane, asked)
            return HTMLResponse(self._pages.page(screen.template, values | {"document": document}), status)
        except SurelaneError as error:
            away = 503 if isinstance(error, Unreachable) else 409
            return HTMLResponse(self._pages.page("away.html", values | {"error": error}), away)

    def _live(self, screen: Screen, lane: ServedLane, asked: Parameters) -> str:
        values = self._values({}, screen, lane, asked)
        try:
            return self._pages.live(screen.template, values | {"document": screen.next(lane, asked)})
        except SurelaneError as error:
            return self._pages.live("away.html", values | {"error": error})
        except NoSuchThing as error:
            return self._gone(str(error))

    def _gone(self, message: str) -> str:
        """In place of what a page showed."""
        return self._pages.live("gone.html", {"live_message": message})

    def _values(
        self, scope: Scope, screen: Screen | None, lane: ServedLane | None, asked: Parameters
    ) -> dict[str, Any]:
        session = session_of(scope) if scope else None
        return {
            "lane": lane,
            "lanes": self._lanes,
            "screen": screen,
            "asked": asked,
            "session": session,
            "may_act": self._options.allow_actions and session is not None,
            "version": version(),
            "refused": None,
            "typed": {},
        }

    def _lane(self, request: Request) -> ServedLane:
        found = self._lanes.get(request.path_params["lane"])
        if found is None:
            raise NoSuchThing(f"this console shows no lane {request.path_params['lane'][:100]}")
        return found

    async def _to_now(self, request: Request) -> Response:
        return RedirectResponse(f"/lanes/{self._lane(request).name}/now", 303)

    # --- all lanes ---------------------------------------------------------------------------------------------------

    async def _overview(self, request: Request) -> Response:
        values = self._values(request.scope, None, None, asked_by(request))
        document = await run_in_threadpool(self._read_lanes)
        return HTMLResponse(self._pages.page("overview.html", values | {"document": document}))

    async def _live_overview(self, _: Request) -> Response:
        def render() -> str:
            values = self._values({}, None, None, Parameters({}, []))
            return self._pages.live("overview.html", values | {"document": self._read_lanes()})

        return await self._stream("/", render, OVERVIEW_SECONDS)

    async def _lanes_json(self, _: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._read_lanes))

    def _read_lanes(self) -> Document:
        """The state of each lane; the lag is on each one's own page."""
        found = list(self._readers.map(_summary, self._lanes))
        broken = [{"file": str(file), "fault": fault} for file, fault in self._lanes.broken]
        return {"lanes": found, "broken": broken}

    async def _open_api(self, _: Request) -> Response:
        return JSONResponse(open_api(version()))

    # --- login -------------------------------------------------------------------------------------------------------

    async def _login(self, request: Request) -> Response:
        onward = own_path(request.query_params.get("next", "/"))
        values = self._values(request.scope, None, None, asked_by(request)) | {"onward": onward}
        by_token = self._options.login.token is not None
        if request.method == "GET":
            return HTMLResponse(self._pages.page("login.html", values | {"by_token": by_token}))
        form = await read_form(request)
        who = form.get("who", "").strip()[:MAX_NAME_CHARACTERS]
        fits = is_own_origin(request) and bool(who) and printable(who) == who
        async with self._wrong_token:
            if not (fits and self._logins.is_token(form.get("token", ""))):
                await asyncio.sleep(WRONG_TOKEN_SECONDS)
                log.warning("login refused", who=who, client=request.client.host if request.client else None)
                values |= {"by_token": by_token, "refused": "name or token are wrong"}
                return HTMLResponse(self._pages.page("login.html", values), 403)
        session = self._logins.open(who)
        log.info("login", who=who)
        secure = self._logins.is_encrypted(request)
        return RedirectResponse(onward, 303, headers={"set-cookie": cookie_of(session, secure=secure)})

    async def _logout(self, request: Request) -> Response:
        session, _ = await self._ordered(request, acting=False)
        self._logins.close(session)
        return RedirectResponse("/", 303, headers={"set-cookie": forgotten_cookie()})

    # --- actions -----------------------------------------------------------------------------------------------------

    async def _ordered(self, request: Request, *, acting: bool = True) -> tuple[Session, dict[str, str]]:
        """The session and the form of a request that a page of this console has sent. Raises _Forbidden for others."""
        session = session_of(request.scope)
        if acting and not self._options.allow_actions:
            raise _Forbidden("this console only shows: it was started without --allow-actions")
        if session is None:
            raise _Forbidden("a login is needed")
        if not is_own_origin(request):
            raise _Forbidden("the request does not come from a page of this console")
        form = await read_form(request)
        if not is_own_form(session, form.get("csrf", "")):
            raise _Forbidden("the form is not of this session: open the page again")
        return session, form

    async def _answer(self, request: Request) -> Response:
        session, form = await self._ordered(request)
        lane, asked = self._lane(request), asked_by(request)
        gid = asked.text("gid") or ""

        def act() -> str:
            given = actions.order(session.who, form.get("reason", ""), forced="force" in form)
            return actions.answer(lane, gid, form.get("gid", ""), form.get("answer", ""), given)

        return await self._acted(request, "transaction", lane, asked, form, act, lambda _: str(request.url.path))

    async def _change_entry(self, request: Request) -> Response:
        session, form = await self._ordered(request)
        lane, asked = self._lane(request), asked_by(request)

        def act() -> str:
            given = actions.order(session.who, form.get("reason", ""), forced="force" in form)
            actions.change_entry(lane, request.path_params["id"], form.get("do", ""), given)
            return ""

        return await self._acted(request, "entry", lane, asked, form, act, lambda _: str(request.url.path))

    async def _change_entries(self, request: Request) -> Response:
        session, form = await self._ordered(request)
        lane, asked = self._lane(request), asked_by(request)
        count = form.get("count", "")

        def act() -> str:
            given = actions.order(session.who, form.get("reason", ""), forced=False)
            expected = int(count) if count.isdecimal() and len(count) < 10 else -1
            return actions.change_entries(lane, asked, expected, form.get("do", ""), given)

        def onward(ids: str) -> str:
            path = f"/lanes/{lane.name}/quarantine"
            return f"{path}/outcome?{urlencode({'ids': ids})}" if len(ids) <= MAX_OUTCOME_CHARACTERS else path

        return await self._acted(request, "quarantine", lane, asked, form, act, onward)

    async def _acted(
        self,
        request: Request,
        name: str,
        lane: ServedLane,
        asked: Parameters,
        form: Mapping[str, str],
        act: Callable[[], str],
        onward: Callable[[str], str],
    ) -> Response:
        """Act, then show the page that has the outcome; where it is refused the same page, with why."""
        screen = next(one for one in SCREENS if one.name == name)
        try:
            done = await run_in_threadpool(act)
        except SurelaneError as error:
            status = 409 if isinstance(error, Refused) else 503
            log.warning("console action refused", what=name, lane=lane.name, because=error.message)
            return await run_in_threadpool(
                self._page, request.scope, screen, lane, asked, status, refused=str(error), typed=form
            )
        place = onward(done)
        return RedirectResponse(place if "?" in place or not asked.query else f"{place}?{asked.query}", 303)

    async def _raw(self, request: Request) -> Response:
        """Key or value of a skipped message, byte for byte; not of a table with columns that are hidden."""
        lane, part, number = self._lane(request), request.path_params["part"], request.path_params["id"]
        if part not in ("key", "value"):
            raise NoSuchThing("a message has a key and a value")
        return await run_in_threadpool(_raw_part, lane, number, part)

    # --- errors ------------------------------------------------------------------------------------------------------

    async def _not_found(self, request: Request, error: Exception) -> Response:
        message = str(error) if isinstance(error, NoSuchThing) else "there is no such page"
        return self._error(request, 404, message)

    async def _not_understood(self, request: Request, error: Exception) -> Response:
        return self._error(request, 400, str(error))

    async def _forbidden(self, request: Request, error: Exception) -> Response:
        client = request.client.host if request.client else None
        log.warning("console action refused", because=str(error), path=request.url.path, client=client)
        return self._error(request, 403, f"{error}. Nothing was changed")

    def _error(self, request: Request, status: int, message: str) -> Response:
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": message}, status)
        values = self._values(request.scope, None, None, asked_by(request))
        return HTMLResponse(self._pages.page("gone.html", values | {"message": message}), status)


def _summary(lane: ServedLane) -> Document:
    try:
        found = readings.now_without_lag(lane, Parameters({}, []))
    except SurelaneError as error:
        return {"lane": lane.name, "state": "not known", "trouble": str(error)}
    return {name: found[name] for name in _SUMMARY} | {"trouble": None}


def _raw_part(lane: ServedLane, number: int, part: str) -> Response:
    with quarantine(lane.settings) as (connection, operator):
        try:
            row = operator.get(connection, number)
        except Refused as error:
            raise NoSuchThing(error.message) from None
    if Redaction(lane.settings.guard.redact).columns(row.source_schema, row.source_table):
        raise _Forbidden("guard.redact hides columns, and which bytes are theirs is unknown")
    data: bytes | None = row.key if part == "key" else row.value
    if data is None:
        raise NoSuchThing(f"entry {number} has no {part}: it is null")
    name = f"entry-{number}-{part}.bin"
    headers = {"content-disposition": f'attachment; filename="{name}"', "content-security-policy": "sandbox"}
    return Response(data, media_type="application/octet-stream", headers=headers)


def _json_error(error: SurelaneError) -> Response:
    status = 503 if isinstance(error, Unreachable) else 409
    return JSONResponse({"error": error.message, "hint": error.hint}, status)


async def _healthz(_: Request) -> Response:
    return PlainTextResponse("ok\n")
