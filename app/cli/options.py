"""Options that several verbs have."""

from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", envvar="SURELANE_CONFIG", help="The configuration file.", show_default="surelane.yaml"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for programs.")]
