"""What every request passes: the host's name, the login, and headers that keep a page from running anything else."""

from collections.abc import Collection
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.console.logins import COOKIE, SESSION_HOURS, Logins, Session

#: reachable without a login: what a login page needs, and a health check, which has no value of a lane
OPEN_PATHS = ("/login", "/static/", "/healthz")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
#: pages have values of rows
NO_STORE = "no-store"
_STATIC = "/static/"


class Gate:
    """The outermost layer of the console."""

    def __init__(self, app: ASGIApp, logins: Logins, hosts: Collection[str]) -> None:
        """`hosts`: names by which the console is reached; another name may lead here by a forged DNS answer."""
        self._app, self._logins, self._hosts = app, logins, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        opened: list[Session] = []

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if not scope["path"].startswith(_STATIC):
                    headers.setdefault("cache-control", NO_STORE)
                for session in opened:
                    headers.append("set-cookie", cookie_of(session, secure=self._logins.is_encrypted(connection)))
            await send(message)

        answer = self._refused(scope, connection, opened) or self._app
        await answer(scope, receive, with_headers)

    def _refused(self, scope: Scope, connection: HTTPConnection, opened: list[Session]) -> ASGIApp | None:
        """The answer to a request that goes no further; None: it may."""
        if _host(connection) not in self._hosts:
            return PlainTextResponse("this console is not reached by that name: --host-name allows one\n", 421)
        session = self._logins.session(connection)
        if session is None and (who := self._logins.named(connection)) is not None:
            session = self._logins.open(who)
            opened.append(session)
        _state(scope)["session"] = session
        if not self._logins.rules.required or session is not None or _is_open(scope["path"]):
            return None
        if scope["method"] in ("GET", "HEAD") and self._logins.bears_token(connection):
            return None
        return self._login(scope)

    def _login(self, scope: Scope) -> Response:
        path: str = scope["path"]
        if path.startswith(("/api/", "/live/")) or scope["method"] not in ("GET", "HEAD"):
            return JSONResponse({"error": "a login is needed: nothing was done"}, 401)
        query = scope["query_string"].decode("latin-1")
        return RedirectResponse(f"/login?{urlencode({'next': f'{path}?{query}' if query else path})}", 303)


def cookie_of(session: Session, *, secure: bool) -> str:
    flags = "HttpOnly; SameSite=Lax; Path=/" + ("; Secure" if secure else "")
    return f"{COOKIE}={session.id}; Max-Age={SESSION_HOURS * 3600}; {flags}"


def forgotten_cookie() -> str:
    return f"{COOKIE}=; Max-Age=0; HttpOnly; SameSite=Lax; Path=/"


def session_of(scope: Scope) -> Session | None:
    """The session that the gate has found."""
    return _state(scope).get("session")


def _state(scope: Scope) -> dict[str, Any]:
    return scope.setdefault("state", {})


def _host(connection: HTTPConnection) -> str:
    name = connection.headers.get("host", "").strip().lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0]


def _is_open(path: str) -> bool:
    return any(path == one or (one.endswith("/") and path.startswith(one)) for one in OPEN_PATHS)
