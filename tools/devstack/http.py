"""HTTP requests to Kafka Connect's REST API, with the standard library."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

REQUEST_SECONDS = 30.0


@dataclass(frozen=True)
class HttpAnswer:
    """A response: the HTTP status and, where the server sent one, the JSON body."""

    status: int
    body: Mapping[str, object]

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


def request(method: str, url: str, body: object = None) -> HttpAnswer:
    """Send one request. HTTP errors are returned, not raised; status 0 means that no server answered."""
    data = None if body is None else json.dumps(body).encode()
    order = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with _opener.open(order, timeout=REQUEST_SECONDS) as answer:
            return HttpAnswer(answer.status, _object(answer.read()))
    except urllib.error.HTTPError as error:
        return HttpAnswer(error.code, _object(error.read()))
    except (urllib.error.URLError, OSError) as error:
        return HttpAnswer(0, {"message": str(error)})


def _object(text: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        value = {"message": text.decode(errors="replace")}
    return value if isinstance(value, dict) else {"value": value}


#: Connects to the loopback address directly, whatever proxy the machine is configured with.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
