"""What the console reads of a request: parameters, forms, and where to go next."""

from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

from app.console.parameters import AddressInvalid, Parameters

#: bytes of a form
MAX_FORM_BYTES = 64 << 10


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


def own_path(text: str) -> str:
    """A path of this server; else its first page."""
    parts = urlsplit(text)
    is_own = text.startswith("/") and not text.startswith(("//", "/\\")) and not parts.netloc and not parts.scheme
    return text if is_own and text.isprintable() else "/"
