"""`surelane rollup`: aggregates that the target keeps of its tables."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from sqlalchemy import Connection

from app.cli.common_options import ConfigFile, Json
from app.cli.rendering import Document, printable, show
from app.config.loader import load
from app.config.settings import Settings
from app.errors import ExitStatus, Refused
from app.ledger.connection import connected
from app.rollup import keeping
from app.rollup.definition import RollupDefinition

app = typer.Typer(add_completion=False, no_args_is_help=True, help="List, verify, rebuild and drop rollups.")

Name = Annotated[str | None, typer.Argument(metavar="[ROLLUP]", help="Name of the rollup; without: all.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Groups that are shown of each.")]


@app.command("list", epilog="Example:\n\n  surelane rollup list --json | jq '.rollups[] | select(.state != \"kept\")'")
def list_rollups(config: ConfigFile = None, json_: Json = False) -> None:
    """Show the rollups of the configuration, and those in the target that it does not name any more."""
    settings = load(config)
    with connected(settings, "surelane rollup", "listing rollups") as connection, connection.begin():
        found = [asdict(one) for one in keeping.states(connection, settings)]
        left = [{"function": name, "comment": mark} for name, mark in keeping.not_configured(connection, settings)]
    show({"rollups": found, "not_configured": left}, _list_text, as_json=json_)


@app.command(epilog="Example:\n\n  surelane rollup verify || surelane rollup rebuild")
def verify(name: Name = None, config: ConfigFile = None, limit: Limit = 20, json_: Json = False) -> None:
    """Compare each group with the rows of the table, in one snapshot; status 16 where one differs.

    The lane may run.
    """
    settings, found = load(config), list[Document]()
    with connected(settings, "surelane rollup", "verifying rollups") as connection:
        for one in _wanted(connection, settings, name):
            with connection.begin():
                connection.exec_driver_sql("set transaction isolation level repeatable read")
                groups = keeping.differences(connection, one, limit)
            found.append({"rollup": one.name, "table": one.config.table, "groups": groups})
    show({"rollups": found}, _verify_text, as_json=json_)
    if any(one["groups"] for one in found):
        raise typer.Exit(ExitStatus.DIFFERENT)


@app.command(epilog="Example:\n\n  surelane rollup rebuild orders_by_hour")
def rebuild(name: Name = None, config: ConfigFile = None, json_: Json = False) -> None:
    """Compute groups and triggers anew, in one transaction each: readers see the old rows until its end.

    The lane may run; it waits so long.
    """
    settings = load(config)
    with connected(settings, "surelane rollup", "rebuilding rollups") as connection:
        wanted = _wanted(connection, settings, name)
        for one in wanted:
            with connection.begin():
                keeping.rebuild(connection, one)
    show({"rebuilt": [one.name for one in wanted]}, _rebuilt_text, as_json=json_)


@app.command(epilog="Example:\n\n  surelane rollup drop")
def drop(config: ConfigFile = None, json_: Json = False) -> None:
    """Remove triggers and functions of rollups that the configuration does not name any more. Their tables stay."""
    settings = load(config)
    with connected(settings, "surelane rollup", "dropping rollups") as connection, connection.begin():
        left = keeping.not_configured(connection, settings)
        for function, _ in left:
            keeping.drop(connection, function, settings.target.db_schema)
    show({"dropped": [mark for _, mark in left]}, _dropped_text, as_json=json_)


def _wanted(connection: Connection, settings: Settings, name: str | None) -> list[RollupDefinition]:
    with connection.begin():
        found = keeping.definitions(connection, settings)
    if name is None:
        return found
    one = keeping.find(found, name)
    if one is None:
        known = ", ".join(settings.rollups) or "there are none"
        raise Refused(f"there is no rollup {name}", hint=f"rollups of the configuration: {known}")
    return [one]


def _list_text(document: Document) -> Iterator[RenderableType]:
    table = Table("rollup", "of", "table", "state")
    for one in document["rollups"]:
        table.add_row(*(Text(printable(one[name])) for name in ("name", "of", "table", "state")))
    yield table
    for one in document["not_configured"]:
        yield Text(printable(f"not in the configuration: {one['comment']}; surelane rollup drop removes its triggers"))


def _verify_text(document: Document) -> Iterator[RenderableType]:
    for one in document["rollups"]:
        yield Text(
            f"{one['rollup']}: {len(one['groups'])} groups differ" if one["groups"] else f"{one['rollup']}: equal"
        )
        for group in one["groups"]:
            yield Text(printable(f"  there {group['there']}, by the rows {group['fresh']}"))


def _rebuilt_text(document: Document) -> Iterator[RenderableType]:
    yield Text(f"rebuilt: {', '.join(document['rebuilt']) or 'none'}")


def _dropped_text(document: Document) -> Iterator[RenderableType]:
    yield Text(f"dropped: {'; '.join(document['dropped']) or 'none'}")
