"""Options that several verbs have."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import PydanticCustomError
from sqlalchemy.engine import URL

from app.config.values import postgres_url

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", envvar="SURELANE_CONFIG", help="The configuration file.", show_default="surelane.yaml"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for programs.")]

RestoredPort = Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Of the restored server.")]
RestoredSlots = Annotated[
    int | None,
    typer.Option("--max-prepared-transactions", min=0, help="Of the restored server.", show_default="the original's"),
]
NoOwner = Annotated[bool, typer.Option("--no-owner", help="dump: everything belongs to the role that restores.")]


def database_url(text: str) -> URL:
    """Parse an option's URL; raises BadParameter without the text, which may have a password."""
    try:
        return postgres_url(text)
    except PydanticCustomError as error:
        raise typer.BadParameter(error.message()) from None
