"""`surelane pause`: the lane stays up and applies nothing, or nothing of one table."""

from collections.abc import Iterator
from typing import Annotated

import typer

from app.cli.caller import who
from app.cli.common_options import ConfigFile, Json, Query, settings_of
from app.cli.rendering import Document, pause_text, show
from app.cli.terminal import progress
from app.recover.pausing import pause as pause_lane
from app.recover.pausing import pause_table

app = typer.Typer(add_completion=False)


Table = Annotated[
    str | None,
    typer.Option("--table", metavar="SCHEMA.TABLE", help="Only this table of the target: its changes are parked."),
]


@app.command(
    epilog='Examples:\n\n  surelane pause --reason "REINDEX of orders"\n\n  surelane pause --timeout 300 --json\n\n'
    "  surelane pause --table public.orders",
)
def pause(
    config: ConfigFile = None,
    query: Query = None,
    table: Table = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Kept with the pause, shown by status.")] = None,
    timeout: Annotated[int, typer.Option("--timeout", min=1, help="Seconds for the epoch in progress.")] = 60,
    json_: Json = False,
) -> None:
    """Let the lane apply nothing until `surelane resume`, and wait until the epoch in progress has ended.

    Then nothing of the lane is prepared or locked in the target. Its process stays; a restart does not end the pause,
    and Kafka's retention goes on. A lane that does not run is paused at its next start.
    With --table the lane goes on, and changes of that table wait in quarantine, in order, until resume --table.
    """
    settings = settings_of(config, query)
    if table is not None:
        with progress("pause") as say:
            one, running = pause_table(settings, table, str(who()), reason, timeout, say)
        show({"lane": settings.lane, "pause": one.as_json(), "running": running}, table_paused_text, as_json=json_)
        return
    with progress("pause") as say:
        found, running = pause_lane(settings, str(who()), reason, timeout, say)
    show({"lane": settings.lane, "pause": found.as_json(), "running": running}, paused_text, as_json=json_)


def table_paused_text(document: Document) -> Iterator[str]:
    yield f"table {document['pause']['table']} is {pause_text(document['pause'])}"
    if not document["running"]:
        yield "the lane does not run now; from its next start on it parks the changes of the table"


def paused_text(document: Document) -> Iterator[str]:
    yield f"lane {document['lane']} is {pause_text(document['pause'])}"
    if not document["running"]:
        yield "it does not run now; its next start applies nothing before surelane resume"
