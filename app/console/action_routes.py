"""The forms of the pages: each is refused, or calls a function of `app.console.actions` and shows the outcome."""

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from app.console import actions
from app.console.logins import Session
from app.console.page_maker import PageMaker
from app.console.quarantine_reading import outcome_query
from app.console.recovery_places import RecoveryPlaces
from app.console.screens import SCREENS
from app.console.web_requests import Forbidden, asked_by, sent_by_a_page
from app.errors import Refused, SurelaneError

log = structlog.get_logger()

#: of the numbers in an outcome's address: a longer one is not understood everywhere
MAX_OUTCOME_CHARACTERS = 4_000


class ActionRoutes:
    """What POST does below `/lanes`."""

    def __init__(self, maker: PageMaker, places: RecoveryPlaces, *, allow_actions: bool) -> None:
        self._maker, self._places, self._allow_actions = maker, places, allow_actions

    def routes(self) -> list[Route]:
        return [
            Route("/lanes/{lane}/in-doubt/transaction", self._answer, methods=["POST"]),
            Route("/lanes/{lane}/quarantine", self._change_entries, methods=["POST"]),
            Route("/lanes/{lane}/quarantine/{id:int}", self._change_entry, methods=["POST"]),
            Route("/lanes/{lane}/recovery/{snapshot}", self._recover, methods=["POST"]),
        ]

    async def _ordered(self, request: Request) -> tuple[Session, dict[str, str]]:
        """The session and the form. Raises Forbidden."""
        if not self._allow_actions:
            raise Forbidden("this console only shows: it was started without --allow-actions")
        return await sent_by_a_page(request)

    async def _answer(self, request: Request) -> Response:
        session, form = await self._ordered(request)
        lane, gid = self._maker.lane(request), asked_by(request).text("gid") or ""

        def act() -> str:
            given = actions.order(session.who, form.get("reason", ""), forced="force" in form)
            actions.answer(lane, gid, form.get("gid", ""), form.get("answer", ""), given)
            return request.url.path

        return await self._acted(request, "transaction", form, act)

    async def _change_entry(self, request: Request) -> Response:
        session, form = await self._ordered(request)
        lane = self._maker.lane(request)

        def act() -> str:
            given = actions.order(session.who, form.get("reason", ""), forced="force" in form)
            actions.change_entry(lane, request.path_params["id"], form.get("do", ""), given)
            return request.url.path

        return await self._acted(request, "entry", form, act)

    async def _change_entries(self, request: Request) -> Response:
        session, form = await self._ordered(request)
        lane, asked = self._maker.lane(request), asked_by(request)
        count = form.get("count", "")

        def act() -> str:
            given = actions.order(session.who, form.get("reason", ""), forced=False)
            expected = int(count) if count.isdecimal() and len(count) < 10 else -1
            outcome = outcome_query(lane, str(given.caller), given.reason)
            ids = actions.change_entries(lane, asked, expected, form.get("do", ""), given)
            query = urlencode({"ids": ids}) if len(ids) <= MAX_OUTCOME_CHARACTERS else outcome()
            return f"/lanes/{lane.name}/quarantine/outcome?{query}"

        return await self._acted(request, "quarantine", form, act)

    async def _recover(self, request: Request) -> Response:
        session, form = await self._ordered(request)
        lane, snapshot = self._maker.lane(request), request.path_params["snapshot"]
        wanted = actions.RecoveryForm(
            typed=form.get("snapshot", ""), name=form.get("name", ""), port=form.get("port", ""), anew="anew" in form
        )

        def act() -> str:
            given = actions.order(session.who, form.get("reason", ""), forced="foreign" in form)
            actions.recover(lane, snapshot, wanted, self._places, given)
            return request.url.path

        return await self._acted(request, "plan", form, act)

    async def _acted(self, request: Request, name: str, form: Mapping[str, str], act: Callable[[], str]) -> Response:
        """Act, then go to the page that `act` returns; where it is refused the screen's page again, with why."""
        screen = next(one for one in SCREENS if one.name == name)
        lane, asked = self._maker.lane(request), asked_by(request)
        try:
            place = await run_in_threadpool(act)
        except SurelaneError as error:
            status = 409 if isinstance(error, Refused) else 503
            log.warning("console action refused", what=name, lane=lane.name, because=error.message)
            return await run_in_threadpool(
                self._maker.page, request.scope, screen, lane, asked, status, refused=str(error), typed=form
            )
        return RedirectResponse(place if "?" in place or not asked.query else f"{place}?{asked.query}", 303)
