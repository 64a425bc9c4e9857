"""Two databases compared, for every command that does it: what it is told wrongly is told as an option's fault."""

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
    """Reads nothing yet. Raises BadParameter for a pattern that is none."""
    try:
        return Verify(settings, against, choice, progress)
    except RouteInvalid as error:
        raise typer.BadParameter(f"{error.problem}: {error.hint}") from None
