"""Makes the comparison of two databases for all commands that need one; wrong options raise BadParameter."""

from collections.abc import Callable
from typing import Annotated

import typer
from sqlalchemy.engine import URL

from app.config.routes import RouteInvalid
from app.config.settings import Settings
from app.verify.pairs import Choice
from app.verify.verify import Verify

Tables = Annotated[
    list[str] | None,
    typer.Option("--tables", metavar="PATTERN", help="Only these target tables; may be given again."),
]
Wait = Annotated[
    float, typer.Option("--wait", min=0, metavar="SECONDS", help="So long, look again at the keys that differ.")
]


def comparing(settings: Settings, against: URL | None, choice: Choice, progress: Callable[[str], None]) -> Verify:
    """A comparison that has read nothing yet. Raises BadParameter for an invalid pattern."""
    try:
        return Verify(settings, against, choice, progress)
    except RouteInvalid as error:
        raise typer.BadParameter(f"{error.problem}: {error.hint}") from None
