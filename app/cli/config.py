"""`surelane config`: the effective configuration."""

import typer

from app.cli.common_options import ConfigFile, Json, Query, settings_of
from app.cli.config_view import config_document, config_text
from app.cli.rendering import show

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples:\n\n  surelane config\n\n"
    "  surelane config --json | jq -r '.values[] | select(.default | not) | .key'",
)
def config(config: ConfigFile = None, query: Query = None, json_: Json = False) -> None:
    """Show every key with its effective value: the file's, the environment's, or the default. Secrets are hidden."""
    show(config_document(settings_of(config, query), config), config_text, as_json=json_)
