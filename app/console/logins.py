"""Who may use the console: sessions that a token or a proxy's header opens, and the marks against forged requests."""

import hmac
import secrets
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

COOKIE = "surelane_console"
#: hours after which a session ends, whatever was done with it
SESSION_HOURS = 12
MAX_SESSIONS = 1_000
#: most characters of a name that a person gives
MAX_NAME_CHARACTERS = 100
#: a shorter token could be guessed
MIN_TOKEN_CHARACTERS = 20


@dataclass(frozen=True, kw_only=True)
class Session:
    """One browser of one person."""

    id: str
    who: str
    #: in every form of the session's pages
    csrf: str
    until: float


@dataclass(frozen=True, kw_only=True)
class LoginRules:
    """How a person shows who they are; without token and header the console needs no login, and has no actions."""

    token: str | None = None
    #: header in which a proxy names the person
    user_header: str | None = None
    #: addresses from which that header is believed
    proxies: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        return self.token is not None or self.user_header is not None


class Logins:
    """The sessions. They are in memory: a console that is started again asks for logins again."""

    def __init__(self, rules: LoginRules) -> None:
        self.rules = rules
        self._sessions: dict[str, Session] = {}

    def session(self, request: HTTPConnection) -> Session | None:
        """The session of a request's cookie; with a proxy's header, only while it names the same person."""
        found = self._sessions.get(request.cookies.get(COOKIE, ""))
        if found is None or found.until < time.monotonic():
            return None
        if self.rules.user_header is not None and self.named(request) != found.who:
            return None
        return found

    def named(self, request: HTTPConnection) -> str | None:
        """The person that a proxy names; None: none, or it comes from elsewhere."""
        header, client = self.rules.user_header, request.client
        if header is None or client is None or client.host not in self.rules.proxies:
            return None
        return (request.headers.get(header) or "").strip()[:MAX_NAME_CHARACTERS] or None

    def is_encrypted(self, request: HTTPConnection) -> bool:
        """Whether the browser's connection is, to this server or to its proxy."""
        client = request.client
        forwarded = client is not None and client.host in self.rules.proxies
        return request.url.scheme == "https" or (forwarded and request.headers.get("x-forwarded-proto") == "https")

    def is_token(self, given: str) -> bool:
        token = self.rules.token
        return token is not None and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())

    def bears_token(self, request: HTTPConnection) -> bool:
        """For programs that read: `Authorization: Bearer TOKEN`."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self.is_token(given.strip())

    def open(self, who: str) -> Session:
        """A new session; the oldest one goes where there are too many."""
        if len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        until = time.monotonic() + SESSION_HOURS * 3600
        made = Session(id=secrets.token_urlsafe(32), who=who, csrf=secrets.token_urlsafe(32), until=until)
        self._sessions[made.id] = made
        return made

    def close(self, session: Session) -> None:
        self._sessions.pop(session.id, None)


def is_own_origin(request: HTTPConnection) -> bool:
    """Whether a browser sent the request from a page of this server: browsers name the origin of every POST."""
    origin, host = request.headers.get("origin"), request.headers.get("host")
    site = request.headers.get("sec-fetch-site", "same-origin")
    return origin is not None and urlsplit(origin).netloc == host and site == "same-origin"


def is_own_form(session: Session, given: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), session.csrf.encode())
