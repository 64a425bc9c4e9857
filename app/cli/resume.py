"""`surelane resume`: ends a pause of a lane, or of a table."""

from collections.abc import Iterator
from typing import Annotated

import typer

from app.cli.caller import who
from app.cli.common_options import ConfigFile, Json, Query, settings_of
from app.cli.rendering import Document, pause_text, show
from app.cli.terminal import progress
from app.recover.pausing import resume as resume_lane
from app.recover.pausing import resume_table

app = typer.Typer(add_completion=False)


Table = Annotated[
    str | None, typer.Option("--table", metavar="SCHEMA.TABLE", help="Only the pause of this table of the target.")
]
Timeout = Annotated[int, typer.Option("--timeout", min=1, help="Seconds to wait for the parked messages of a table.")]


@app.command(
    epilog="Examples:\n\n  surelane resume\n\n  surelane resume --config orders.yaml --json\n\n"
    "  surelane resume --table public.orders",
)
def resume(
    config: ConfigFile = None, query: Query = None, table: Table = None, timeout: Timeout = 600, json_: Json = False
) -> None:
    """End the pause of a lane; a running one goes on within about a second.

    With --table the lane first applies what is parked of the table, in order; this waits until it has.
    """
    settings = settings_of(config, query)
    if table is not None:
        with progress("resume") as say:
            one, running, left = resume_table(settings, table, str(who()), timeout, say)
        document = {"lane": settings.lane, "table": table, "pause": one and one.as_json()}
        show(document | {"running": running, "parked": left}, table_resumed_text, as_json=json_)
        return
    found = resume_lane(settings)
    show({"lane": settings.lane, "pause": found and found.as_json()}, resumed_text, as_json=json_)


def table_resumed_text(document: Document) -> Iterator[str]:
    if (pause := document["pause"]) is None:
        yield f"table {document['table']} has no pause"
        return
    yield f"the lane applies changes of table {document['table']} again: it was {pause_text(pause)}"
    if not document["running"]:
        yield f"the lane does not run now; its next start applies first what is parked: {document['parked']:,} messages"
    elif document["parked"]:
        yield f"{document['parked']:,} messages stay in quarantine: surelane quarantine list --state parked says why"


def resumed_text(document: Document) -> Iterator[str]:
    if (pause := document["pause"]) is None:
        yield f"lane {document['lane']} has no pause"
    else:
        yield f"lane {document['lane']} goes on: it was {pause_text(pause)}"
