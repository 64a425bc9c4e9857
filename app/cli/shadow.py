"""`surelane shadow`: a second lane fills a copy of the tables under a new configuration, and takes their place."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from app.cli.caller import who
from app.cli.common_options import ConfigFile, Json
from app.cli.rendering import Document, show
from app.cli.terminal import confirm, progress
from app.config.loader import load
from app.ledger.shadow_copies import ShadowCopy, ShadowState
from app.savepoint.folder import SavepointFolder
from app.shadow import elsewhere
from app.shadow.creating import Created
from app.shadow.creating import create as create_copy
from app.shadow.switching import ShadowStatus, Switched
from app.shadow.switching import dispose as dispose_copy
from app.shadow.switching import status as status_of
from app.shadow.switching import switch as switch_tables
from app.shadow.switching import undo as undo_switch

app = typer.Typer(
    name="shadow",
    help="Shadow copies: change a type, a key or a route of tables without a gap.",
    add_completion=False,
    no_args_is_help=True,
)

Original = Annotated[
    Path | None,
    typer.Option("--original", metavar="CONFIG", help="Of the lane, where the copy is in another database."),
]
MaxPause = Annotated[float, typer.Option("--max-pause", min=1, help="Seconds in which no lane may write the tables.")]


@app.command(
    epilog="Examples:\n\n  surelane shadow create --from-savepoint before --config new.yaml --into orders_v2\n\n"
    "  surelane shadow create --from-savepoint before --config new.yaml --into orders_v2 --from-topics",
)
def create(
    savepoint: Annotated[
        str, typer.Option("--from-savepoint", metavar="NAME", help="A savepoint of the lane.", show_default=False)
    ],
    into: Annotated[
        str | None, typer.Option("--into", metavar="SCHEMA", help="The copy's schema until the switch.")
    ] = None,
    config: ConfigFile = None,
    original: Original = None,
    from_topics: Annotated[
        bool, typer.Option("--from-topics", help="Leave the copy empty: its lane begins at the topics' first messages.")
    ] = False,
    json_: Json = False,
) -> None:
    """Make a copy of the lane's tables for the lane of a new configuration, which has another lane name and checkpoint.

    Tables that exist in the schema are used as they are, and have to be empty: make those there that are to differ. The
    others are made like the target's. All are filled from the target's rows in one transaction, whose position the new
    lane begins at. The lane runs on. Then start the new lane: surelane run --config.

    With --original instead of --into the copy is in another database, the new configuration's target, whose tables are
    there, empty.
    """
    settings = load(config)
    if (into is None) is (original is None):
        raise typer.BadParameter("one of --into and --original says where the copy is")
    found = SavepointFolder(settings.savepoints.directory).get(savepoint)
    with progress("shadow") as say:
        by = str(who())
        if original is not None:
            made = elsewhere.create(settings, load(original), found, from_topics=from_topics, by=by, progress=say)
        else:
            made = create_copy(settings, found, str(into), from_topics=from_topics, by=by, progress=say)
    document = created_document(made, None if config is None else str(config))
    show(document, created_text, as_json=json_)


@app.command(
    epilog="Examples:\n\n  surelane shadow status --config new.yaml\n\n"
    "  surelane shadow status --config new.yaml --json | jq .behind",
)
def status(config: ConfigFile = None, original: Original = None, json_: Json = False) -> None:
    """Show the copy in which the lane has a part: its state, and how far it is behind."""
    settings = load(config)
    found = status_of(settings) if original is None else elsewhere.status(settings, load(original))
    show(status_document(settings.lane, found), status_text, as_json=json_)


@app.command(
    epilog="Examples:\n\n  surelane shadow switch --config new.yaml\n\n"
    "  surelane shadow switch --config new.yaml --max-pause 5 --json | jq .paused_seconds",
)
def switch(
    config: ConfigFile = None, original: Original = None, max_pause: MaxPause = 10.0, json_: Json = False
) -> None:
    """Give the copy the original tables' names, in one transaction, at a position that both have.

    Waits until the copy is near, then pauses both lanes. The original lane stops, and does not start again; the new one
    goes on by itself. The original tables stay, in the schema SCHEMA_old. Where it is not done in time nothing is
    changed. A call that was killed leaves the lanes paused: call it again.

    With --original nothing is moved: the original lane stops, and who reads the tables is to read the new target's.
    """
    settings = load(config)
    with progress("shadow switch") as say:
        by = str(who())
        if original is not None:
            done = elsewhere.switch(settings, load(original), by, seconds=max_pause, progress=say)
        else:
            done = switch_tables(settings, by, seconds=max_pause, progress=say)
    show(switched_document(done), switched_text, as_json=json_)


@app.command(
    epilog="Examples:\n\n  surelane shadow undo --config new.yaml\n\n"
    "  surelane shadow undo --config new.yaml --json | jq .original",
)
def undo(config: ConfigFile = None, original: Original = None, max_pause: MaxPause = 10.0, json_: Json = False) -> None:
    """Give the original tables their names back. Start the original lane then: it goes on where it was stopped.

    The new lane follows with its copy again, and can be switched to again.
    """
    settings = load(config)
    with progress("shadow undo") as say:
        if original is not None:
            done = elsewhere.undo(settings, load(original))
        else:
            done = undo_switch(settings, str(who()), seconds=max_pause, progress=say)
    show(switched_document(done), undone_text, as_json=json_)


@app.command(
    epilog="Examples:\n\n  surelane shadow dispose --config new.yaml\n\n"
    "  surelane shadow dispose --config new.yaml --yes",
)
def dispose(
    config: ConfigFile = None,
    original: Original = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether it is meant.")] = False,
    json_: Json = False,
) -> None:
    """Drop what is not in use: after a switch the original tables, which ends the way back; before one the copy.

    With --original no table is dropped, in neither database.
    """
    settings = load(config)
    old = None if original is None else load(original)
    if not yes:
        found = status_of(settings) if old is None else elsewhere.status(settings, old)
        is_switched = found is not None and found.copy.state is ShadowState.SWITCHED
        confirm(f"give up {'the original tables' if is_switched else 'the copy'} of lane {settings.lane}?")
    copy, names = dispose_copy(settings) if old is None else (elsewhere.dispose(settings, old), [])
    show(disposed_document(copy, names), disposed_text, as_json=json_)


def created_text(document: Document) -> Iterator[str]:
    config = f" --config {document['config']}" if document["config"] else ""
    yield f"lane {document['lane']} has a copy of lane {document['original']}'s tables in {_place(document)}"
    for table, rows in document["rows"].items():
        yield f"  {table}: {rows:,} rows"
    for part in document["left_out"]:
        yield f"  not made: {part}"
    yield f"start it: surelane run{config}"
    yield f"switch to it once it has caught up: surelane shadow switch{config}"


def status_text(document: Document) -> Iterator[str]:
    copy = document["copy"]
    if copy is None:
        yield f"lane {document['lane']} has no part in a shadow copy"
        return
    if copy["state"] == ShadowState.SWITCHED:
        yield f"lane {copy['lane']} has the place of lane {copy['original']}, whose tables {_old(copy)}"
    elif copy["state"] == ShadowState.DISPOSED:
        yield f"lane {copy['lane']} has the place of lane {copy['original']}, whose tables were dropped"
    else:
        where = f"in {_place(copy)}, {document['behind']:,} offsets behind"
        yield f"lane {copy['lane']} follows lane {copy['original']} {where}"


def switched_text(document: Document) -> Iterator[str]:
    yield f"lane {document['lane']} writes {', '.join(document['tables'])} from now on"
    yield f"no lane wrote them for {document['paused_seconds']:.1f} s"
    yield f"lane {document['original']} has stopped, its tables {_old(document)}"
    if document["url"] is not None:
        yield f"the tables are read from {document['url']} now"
    yield "the way back: surelane shadow undo; the end of it: surelane shadow dispose"


def undone_text(document: Document) -> Iterator[str]:
    yield f"lane {document['original']} has its tables again: start it"
    yield f"lane {document['lane']} follows in {_place(document)}"


def disposed_text(document: Document) -> Iterator[str]:
    yield f"dropped: {', '.join(document['dropped']) or 'no table'}"


def _place(copy: Document) -> str:
    return f"schema {copy['schema']}" if copy["url"] is None else copy["url"]


def _old(copy: Document) -> str:
    return f"are in schema {copy['old_schema']}" if copy["url"] is None else "are where they were"


def _copy_document(copy: ShadowCopy) -> Document:
    return {
        "lane": copy.lane,
        "original": copy.original,
        "savepoint": copy.savepoint,
        "schema": copy.copy_schema,
        "old_schema": copy.old_schema,
        "url": copy.url,
        "state": copy.state.value,
        "tables": [".".join(name) for name in copy.new_tables],
        "original_tables": [".".join(name) for name in copy.old_tables],
        "by": copy.by,
        "at": copy.at.isoformat(),
        "switched_at": None if copy.switched_at is None else copy.switched_at.isoformat(),
    }


def created_document(made: Created, config: str | None) -> Document:
    return {
        **_copy_document(made.copy),
        "position": made.position.nested(),
        "rows": made.rows,
        "left_out": list(made.left_out),
        "config": config,
    }


def status_document(lane: str, found: ShadowStatus | None) -> Document:
    if found is None:
        return {"copy": None, "lane": lane}
    return {
        "copy": _copy_document(found.copy),
        "lane": lane,
        "original_position": found.original.nested(),
        "position": found.position.nested(),
        "behind": found.behind,
    }


def disposed_document(copy: ShadowCopy, names: Sequence[str]) -> Document:
    return {**_copy_document(copy), "dropped": list(names)}


def switched_document(done: Switched) -> Document:
    return {
        **_copy_document(done.copy),
        "original_position": done.original.nested(),
        "position": done.position.nested(),
        "paused_seconds": round(done.paused_seconds, 3),
    }
