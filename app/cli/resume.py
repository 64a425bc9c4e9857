"""`surelane resume`: ends a pause."""

from collections.abc import Iterator

import typer

from app.cli.common_options import ConfigFile, Json
from app.cli.rendering import Document, pause_text, show
from app.config.loader import load
from app.recover.pausing import resume as resume_lane

app = typer.Typer(add_completion=False)


@app.command(epilog="Examples:\n\n  surelane resume\n\n  surelane resume --config orders.yaml --json")
def resume(config: ConfigFile = None, json_: Json = False) -> None:
    """End the pause of a lane; a running one goes on within about a second."""
    settings = load(config)
    found = resume_lane(settings)
    show({"lane": settings.lane, "pause": found and found.as_json()}, resumed_text, as_json=json_)


def resumed_text(document: Document) -> Iterator[str]:
    if (pause := document["pause"]) is None:
        yield f"lane {document['lane']} has no pause"
    else:
        yield f"lane {document['lane']} goes on: it was {pause_text(pause)}"
