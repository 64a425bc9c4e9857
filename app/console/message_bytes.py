"""Key or value of a skipped message, byte for byte, as a file."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.cli.operator_access import quarantine
from app.config.redaction import Redaction
from app.console.page_maker import PageMaker
from app.console.parameters import NoSuchThing
from app.console.served_lanes import ServedLane
from app.console.web_requests import Forbidden
from app.errors import Refused, SurelaneError, Unreachable


def message_route(maker: PageMaker) -> Route:
    async def read(request: Request) -> Response:
        lane, part = maker.lane(request), request.path_params["part"]
        if part not in ("key", "value"):
            raise NoSuchThing("a message has a key and a value")
        try:
            return await run_in_threadpool(_part, lane, request.path_params["id"], part)
        except SurelaneError as error:
            return maker.error(request, 503 if isinstance(error, Unreachable) else 409, str(error))

    return Route("/lanes/{lane}/quarantine/{id:int}/{part}", read)


def _part(lane: ServedLane, number: int, part: str) -> Response:
    """Raises Forbidden for a message of a table with columns that are hidden."""
    with quarantine(lane.settings, engine=lane.engine) as (connection, operator):
        try:
            row = operator.get(connection, number)
        except Refused as error:
            raise NoSuchThing(error.message) from None
    if Redaction(lane.settings.guard.redact).columns(row.source_schema, row.source_table):
        raise Forbidden("guard.redact hides columns, and which bytes are theirs is unknown")
    data: bytes | None = row.key if part == "key" else row.value
    if data is None:
        raise NoSuchThing(f"entry {number} has no {part}: it is null")
    name = f"entry-{number}-{part}.bin"
    headers = {"content-disposition": f'attachment; filename="{name}"', "content-security-policy": "sandbox"}
    return Response(data, media_type="application/octet-stream", headers=headers)
