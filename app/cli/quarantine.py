"""`surelane quarantine`: shows the messages that a lane skipped, requests their release, or discards them."""

import datetime
import enum
import sys
from typing import Annotated

import typer

from app.cli.caller import who
from app.cli.common_options import ConfigFile, Json, Query, settings_of
from app.cli.operator_access import check_releasable, quarantine
from app.cli.quarantine_view import entry_document, entry_text, list_document, list_text
from app.cli.rendering import show
from app.cli.terminal import confirm
from app.config.redaction import Redaction
from app.config.settings import Settings
from app.errors import Refused
from app.model.moment import EXAMPLE, moment
from app.quarantine.operator import Filter
from app.quarantine.quarantine import OPEN, EntryState

#: most entries of one `list`, which has their messages in memory together
MAX_LISTED = 1_000

app = typer.Typer(
    name="quarantine",
    help="Messages the lane skipped because they could not be applied: list, show, release, discard. Works while the "
    "lane runs and while it does not.",
    add_completion=False,
    no_args_is_help=True,
)


class Part(enum.StrEnum):
    KEY = "key"
    VALUE = "value"


def _since(text: str) -> datetime.datetime:
    """Parse a time, or how long ago it was."""
    try:
        return moment(text)
    except ValueError:
        raise typer.BadParameter(f"write it like {EXAMPLE}") from None


Id = Annotated[int, typer.Argument(min=1, max=2**63 - 1, help="Number of the entry.", show_default=False)]
Ids = Annotated[list[int] | None, typer.Argument(min=1, max=2**63 - 1, help="Numbers of entries.", show_default=False)]
TableName = Annotated[
    str | None, typer.Option("--table", help="Of this source schema.table; * stands for any text.", show_default=False)
]
All = Annotated[bool, typer.Option("--all", help="All that wait: quarantined and parked.")]


@app.command(
    "list",
    epilog="Examples:\n\n  surelane quarantine list --state quarantined --table public.orders --since 2h\n\n"
    "  surelane quarantine list --sqlstate 23 --json | jq '.entries[].id'",
)
def list_entries(
    config: ConfigFile = None,
    query: Query = None,
    state: Annotated[
        list[EntryState] | None, typer.Option("--state", help="In this state; may be given again.")
    ] = None,
    table: TableName = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Of this topic.")] = None,
    since: Annotated[
        datetime.datetime | None,
        typer.Option("--since", parser=_since, metavar="TIME", help="Skipped since: 30m, 2h, 7d ago, or a time (UTC)."),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Part of the error or of its class.")] = None,
    sqlstate: Annotated[str | None, typer.Option("--sqlstate", help="Beginning of the SQLSTATE.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=MAX_LISTED, help="At most so many.")] = 50,
    as_json: Json = False,
) -> None:
    """Show the skipped messages, the newest first."""
    settings = settings_of(config, query)
    filters = Filter(states=tuple(state or ()), table=table, topic=topic, since=since, reason=reason, sqlstate=sqlstate)
    with quarantine(settings) as (connection, operator):
        rows, total = operator.find(connection, filters, limit), operator.count(connection, filters)
    show(list_document(rows, total, Redaction(settings.guard.redact)), list_text, as_json=as_json)


@app.command(
    "show",
    epilog="Examples:\n\n  surelane quarantine show 17\n\n  surelane quarantine show 17 --raw value > message.json",
)
def show_entry(
    entry: Id,
    config: ConfigFile = None,
    query: Query = None,
    raw: Annotated[
        Part | None, typer.Option("--raw", help="Write only these bytes, as they are, redacted or not.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show one message with headers, error, attempts and everything that was done with it."""
    settings = settings_of(config, query)
    with quarantine(settings) as (connection, operator):
        row, history = operator.get(connection, entry), operator.history(connection, entry)
    if raw is None:
        show(entry_document(row, history, Redaction(settings.guard.redact)), entry_text, as_json=as_json)
        return
    data: bytes | None = row.key if raw is Part.KEY else row.value
    if data is None:
        raise Refused(f"entry {entry} has no {raw}: it is null")
    sys.stdout.buffer.write(data)


@app.command(
    epilog="Examples:\n\n  surelane quarantine release 17 18\n\n"
    '  surelane quarantine release 17 --force --reason "the newer row is wrong, see ticket"',
)
def release(
    entries: Ids = None,
    config: ConfigFile = None,
    query: Query = None,
    every: All = False,
    table: TableName = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where a newer change of the key was applied: the row goes back.")
    ] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; needed with --force.")] = None,
) -> None:
    """Have messages applied after all.

    The request is recorded, and the lane applies the messages in order, between two epochs. Where it has to refuse,
    `show` says why. Refused for a query, whose state is beyond them.
    """
    if force and not (reason or "").strip():
        raise typer.BadParameter('say why: --force needs --reason "..."')
    settings = settings_of(config, query)
    check_releasable(settings)
    found = _meant(settings, entries, every=every, table=table)
    with quarantine(settings) as (connection, operator):
        operator.request_release(connection, found, str(who()), reason, forced=force)
    typer.echo(f"release of {_entries(found)} requested; the lane takes it up within a second, if it runs")


@app.command(
    epilog='Examples:\n\n  surelane quarantine discard 17 --reason "test data"\n\n'
    '  surelane quarantine discard --all --table "public.tmp_*" --reason "table is gone" --yes',
)
def discard(
    reason: Annotated[str, typer.Option("--reason", help="Why.")],
    entries: Ids = None,
    config: ConfigFile = None,
    query: Query = None,
    every: All = False,
    table: TableName = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether all are meant.")] = False,
) -> None:
    """Give messages up: they are never applied. They stay in the table, as discarded."""
    if not reason.strip():
        raise typer.BadParameter("say why: --reason must not be empty")
    settings = settings_of(config, query)
    found = _meant(settings, entries, every=every, table=table)
    if every and found and not yes:
        confirm(f"discard {_entries(found)}?")
    with quarantine(settings) as (connection, operator):
        operator.discard(connection, found, str(who()), reason)
    typer.echo(f"{_entries(found)} discarded")


def _meant(settings: Settings, entries: list[int] | None, *, every: bool, table: str | None) -> list[int]:
    """Ids of the entries that the command line names."""
    if every == bool(entries):
        raise typer.BadParameter("name entries, or --all (with --table: all of that table)")
    if entries:
        if table is not None:
            raise typer.BadParameter("--table narrows --all; entries are named by their numbers alone")
        return sorted(set(entries))
    with quarantine(settings) as (connection, operator):
        return operator.ids(connection, Filter(states=OPEN, table=table))


def _entries(found: list[int]) -> str:
    return f"entry {found[0]}" if len(found) == 1 else f"{len(found)} entries"
