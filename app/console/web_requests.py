"""What the console reads of a request: parameters, forms, who has sent them, and where to go next."""

from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

from app.console.gate import session_of
from app.console.logins import Session, is_own_form, is_own_origin
from app.console.parameters import AddressInvalid, Parameters

#: bytes of a form
MAX_FORM_BYTES = 64 << 10


class Forbidden(Exception):
    """An action without a login, or that no page of this console has sent."""


def asked_by(request: Request) -> Parameters:
    path = {name: str(value) for name, value in request.path_params.items() if name != "lane"}
    return Parameters(path, request.query_params.multi_items())


async def read_form(request: Request) -> dict[str, str]:
    """Fields of a form; raises AddressInvalid for one that is too large or of another kind."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise AddressInvalid("a form is sent as application/x-www-form-urlencoded: nothing was done")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise AddressInvalid(f"a form has {MAX_FORM_BYTES} bytes at most: nothing was done")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


async def sent_by_a_page(request: Request) -> tuple[Session, dict[str, str]]:
    """The session and the form of a request that a page of this console has sent. Raises Forbidden for others."""
    session = session_of(request.scope)
    if session is None:
        raise Forbidden("a login is needed")
    if not is_own_origin(request):
        raise Forbidden("the request does not come from a page of this console")
    form = await read_form(request)
    if not is_own_form(session, form.get("csrf", "")):
        raise Forbidden("the form is not of this session: open the page again")
    return session, form


def own_path(text: str) -> str:
    """A path of this server; else its first page."""
    parts = urlsplit(text)
    is_own = text.startswith("/") and not text.startswith(("//", "/\\")) and not parts.netloc and not parts.scheme
    return text if is_own and text.isprintable() else "/"
