"""The login page, and what ends a session."""

import asyncio

import structlog
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from app.cli.rendering import printable
from app.console.gate import cookie_of, forgotten_cookie
from app.console.logins import MAX_NAME_CHARACTERS, LoginRules, Logins, is_own_origin
from app.console.page_maker import PageMaker
from app.console.web_requests import own_path, read_form, sent_by_a_page

log = structlog.get_logger()

#: seconds after which a wrong token is answered; one at a time
WRONG_TOKEN_SECONDS = 1.0


class LoginRoutes:
    """`/login` and `/logout`."""

    def __init__(self, maker: PageMaker, logins: Logins, rules: LoginRules) -> None:
        self._maker, self._logins, self._rules = maker, logins, rules
        self._wrong_token = asyncio.Lock()

    def routes(self) -> list[Route]:
        return [
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/logout", self._logout, methods=["POST"]),
        ]

    async def _login(self, request: Request) -> Response:
        onward = own_path(request.query_params.get("next", "/"))
        values = {"onward": onward, "by_token": self._rules.token is not None}
        if request.method == "GET":
            return self._maker.plain(request, "login.html", **values)
        form = await read_form(request)
        who = form.get("who", "").strip()[:MAX_NAME_CHARACTERS]
        fits = is_own_origin(request) and bool(who) and printable(who) == who
        async with self._wrong_token:
            if not (fits and self._logins.is_token(form.get("token", ""))):
                await asyncio.sleep(WRONG_TOKEN_SECONDS)
                log.warning("login refused", who=who, client=request.client.host if request.client else None)
                return self._maker.plain(request, "login.html", 403, **values, refused="name or token are wrong")
        session = self._logins.open(who)
        log.info("login", who=who)
        secure = self._logins.is_encrypted(request)
        return RedirectResponse(onward, 303, headers={"set-cookie": cookie_of(session, secure=secure)})

    async def _logout(self, request: Request) -> Response:
        session, _ = await sent_by_a_page(request)
        self._logins.close(session)
        return RedirectResponse("/", 303, headers={"set-cookie": forgotten_cookie()})
