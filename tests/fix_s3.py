"""A replacement for Amazon S3 on a port of this machine: moto has the calls, the client is PyArrow's own."""

import threading
from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws
from moto.moto_proxy.proxy3 import MotoRequestHandler
from werkzeug import Request, Response
from werkzeug.exceptions import HTTPException
from werkzeug.serving import WSGIRequestHandler, make_server

REGION, BUCKET = "us-east-1", "backups"
#: moto knows S3 by its address
_HOST = f"http://s3.{REGION}.amazonaws.com"


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002
        """Nothing: `Storage.requests` has them."""


class Storage:
    """The server, with the bucket `backups`."""

    def __init__(self) -> None:
        #: method and path of each
        self.requests: list[str] = []
        self._server = make_server(
            "127.0.0.1", 0, Request.application(self._answer), threaded=True, request_handler=_Handler
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.s3 = boto3.client("s3", region_name=REGION)
        self.s3.create_bucket(Bucket=BUCKET)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        return self._server.server_port

    def uri(self, prefix: str = "lanes", bucket: str = BUCKET) -> str:
        return f"s3://{bucket}/{prefix}?endpoint_override=127.0.0.1:{self.port}&scheme=http&region={REGION}"

    def objects(self) -> dict[str, bytes]:
        """Key -> content."""
        found = self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return {one["Key"]: self.s3.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read() for one in found}

    def put(self, key: str, content: bytes) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=content)

    def remove(self, key: str) -> None:
        self.s3.delete_object(Bucket=BUCKET, Key=key)

    def _answer(self, request: Request) -> Response:
        path = request.environ["RAW_URI"]
        self.requests.append(f"{request.method} {path}")
        handler = MotoRequestHandler(self.port)
        try:
            found = handler.parse_request(request.method, _HOST, path, dict(request.headers), request.get_data())
        except HTTPException as error:
            found = error.code or 500, dict(error.get_headers()), error.get_body()
        status, headers, content = found if isinstance(found, tuple) else (200, {}, found)
        body = content.encode() if isinstance(content, str) else content
        # as a list: a HEAD's length is the object's
        return Response([body], int(status), {name: str(value) for name, value in headers.items()})


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """S3 at `storage.uri()`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    with mock_aws():
        made = Storage()
        yield made
        made.close()
