"""Pages of the console: what every template gets, and a page with what can be read or with why not."""

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import Scope

from app.cli.rendering import Document
from app.console.gate import session_of
from app.console.pages import Pages
from app.console.parameters import NoSuchThing, Parameters
from app.console.recovery_places import RecoveryPlaces
from app.console.screen import Screen
from app.console.served_lanes import ServedLane, ServedLanes
from app.console.web_requests import asked_by
from app.errors import SurelaneError, Unreachable
from app.installation import version


class PageMaker:
    """Makes pages for requests."""

    def __init__(self, lanes: ServedLanes, places: RecoveryPlaces, *, allow_actions: bool) -> None:
        self.lanes, self._places = lanes, places
        self._allow_actions = allow_actions
        self._pages = Pages()

    def lane(self, request: Request) -> ServedLane:
        """The lane of the request's path. Raises NoSuchThing."""
        found = self.lanes.get(request.path_params["lane"])
        if found is None:
            raise NoSuchThing(f"this console shows no lane {request.path_params['lane'][:100]}")
        return found

    def page(
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

    def live(self, screen: Screen, lane: ServedLane, asked: Parameters) -> str:
        """What an open page of the screen gets."""
        values = self._values({}, screen, lane, asked)
        try:
            return self._pages.live(screen.template, values | {"document": screen.next(lane, asked)})
        except SurelaneError as error:
            return self._pages.live("away.html", values | {"error": error})
        except NoSuchThing as error:
            return self.gone(str(error))

    def gone(self, message: str) -> str:
        """In place of what an open page showed."""
        return self._pages.live("gone.html", {"live_message": message})

    def plain(self, request: Request, template: str, status: int = 200, **more: Any) -> Response:
        """A page that is of no lane."""
        values = self._values(request.scope, None, None, asked_by(request)) | more
        return HTMLResponse(self._pages.page(template, values), status)

    def plain_live(self, template: str, document: Document) -> str:
        values = self._values({}, None, None, Parameters({}, []))
        return self._pages.live(template, values | {"document": document})

    def error(self, request: Request, status: int, message: str) -> Response:
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": message}, status)
        return self.plain(request, "gone.html", status, message=message)

    def _values(
        self, scope: Scope, screen: Screen | None, lane: ServedLane | None, asked: Parameters
    ) -> dict[str, Any]:
        session = session_of(scope) if scope else None
        return {
            "lane": lane,
            "lanes": self.lanes,
            "screen": screen,
            "asked": asked,
            "session": session,
            "may_act": self._allow_actions and session is not None,
            "places": self._places,
            "version": version(),
            "refused": None,
            "typed": {},
        }
