"""Options that several verbs have."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import PydanticCustomError
from sqlalchemy.engine import URL

from app.config.loader import load
from app.config.settings import Settings
from app.config.values import postgres_url

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", envvar="SURELANE_CONFIG", help="The configuration file.", show_default="surelane.yaml"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for programs.")]

Query = Annotated[
    str | None, typer.Option("--query", metavar="NAME", help="This query of the configuration, instead of the lane.")
]

Replayable = Annotated[
    bool, typer.Option("--replayable", help="Ask Kafka until when the newest ten can be replayed from.")
]

RestoredPort = Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Of the restored server.")]
RestoredSlots = Annotated[
    int | None,
    typer.Option("--max-prepared-transactions", min=0, help="Of the restored server.", show_default="the original's"),
]
NoOwner = Annotated[bool, typer.Option("--no-owner", help="dump: everything belongs to the role that restores.")]


def settings_of(config: Path | None, query: str | None) -> Settings:
    """The settings of the lane, or of its query. Raises ConfigInvalid."""
    settings = load(config)
    return settings if query is None else settings.of_query(query)


def database_url(text: str) -> URL:
    """Parse an option's URL; raises BadParameter without the text, which may have a password."""
    try:
        return postgres_url(text)
    except PydanticCustomError as error:
        raise typer.BadParameter(error.message()) from None
