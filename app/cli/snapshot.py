"""`surelane snapshot`: takes snapshots of the target while the lane runs, and restores them in another place."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from app.cli.common_options import ConfigFile, Json, NoOwner, RestoredPort, RestoredSlots
from app.cli.snapshot_view import as_json, facts, listed, made_text, restored_json, restored_text
from app.cli.terminal import confirm, console, progress
from app.config.loader import load
from app.config.settings import Settings, SnapshotDriver
from app.errors import ExitStatus
from app.snapshot.driver import RestorePlace
from app.snapshot.snapshots import Snapshots

app = typer.Typer(
    name="snapshot",
    help="Snapshots of the target: create, list, verify, delete, restore. Works while the lane runs and while it does "
    "not, and needs neither Kafka nor Java.",
    add_completion=False,
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the snapshot.", show_default=False)]


@app.command(
    epilog="Examples:\n\n  surelane snapshot create --driver basebackup --keep 7\n\n"
    "  surelane snapshot create --name before-the-release --json | jq .position",
)
def create(
    config: ConfigFile = None,
    name: Annotated[str | None, typer.Option("--name", help="Its name; if not given, lane and time.")] = None,
    driver: Annotated[
        SnapshotDriver | None, typer.Option("--driver", help="How.", show_default="snapshots.driver")
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=1, help="So many by this driver stay, this one included; older ones go.")
    ] = None,
    json_: Json = False,
) -> None:
    """Take a snapshot of the target; the lane goes on.

    A manifest beside it says what it is of: the lanes' positions in its ledger, what was prepared, checksums. It is
    there when it is whole, or not at all.
    """
    settings = load(config)
    with _opened(settings) as snapshots:
        made = snapshots.create(name, driver, keep)
    if json_:
        more = {"deleted": made.deleted, "trouble": made.trouble}
        typer.echo(json.dumps(as_json(made.stored) | more))
        return
    typer.echo(made_text(made))


@app.command(
    "list",
    epilog="Examples:\n\n  surelane snapshot list\n\n  surelane snapshot list --json | jq -r '.snapshots[-1].name'",
)
def list_snapshots(config: ConfigFile = None, json_: Json = False) -> None:
    """Show the snapshots that are whole, the oldest first."""
    with _opened(load(config)) as snapshots:
        found = snapshots.listing()
    if json_:
        broken = [{"name": name, "why": why} for name, why in found.broken]
        every = [as_json(one) for one in found.snapshots]
        typer.echo(json.dumps({"snapshots": every, "unfinished": found.unfinished, "broken": broken}))
        return
    if found.snapshots:
        console().print(listed(found.snapshots))
    else:
        typer.echo(f"there is no snapshot in {snapshots.directory.root}")
    for name in found.unfinished:
        typer.echo(f"{name}: is being made, or its process died over it (the next create clears it away then)")
    for name, why in found.broken:
        typer.echo(f"{name}: cannot be used: {why}")


@app.command(
    epilog="Examples:\n\n  surelane snapshot verify orders-20260131-020000\n\n"
    "  surelane snapshot verify orders-20260131-020000 --json | jq '.faults[]'",
)
def verify(name: Name, config: ConfigFile = None, json_: Json = False) -> None:
    """Read all of one again: checksums, and what Postgres' own tools say (pg_verifybackup, pg_restore --list).

    Ends with status 16 when something differs. Whether its rows are right tells a restore with `surelane verify`.
    """
    with _opened(load(config)) as snapshots:
        faults = snapshots.faults(name)
        stored = snapshots.directory.get(name)
    if json_:
        typer.echo(json.dumps({"name": name, "sound": not faults, "faults": faults}))
    else:
        console().print(facts(stored))
        for one in faults:
            typer.echo(one)
        typer.echo(f"{name}: {'sound' if not faults else f'{len(faults)} faults'}")
    if faults:
        raise typer.Exit(ExitStatus.DIFFERENT)


@app.command(
    epilog="Examples:\n\n  surelane snapshot delete orders-20260131-020000\n\n"
    "  surelane snapshot delete orders-20260131-020000 --yes",
)
def delete(
    name: Name,
    config: ConfigFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether it is meant.")] = False,
) -> None:
    """Give one up: its files, and what RDS keeps of it."""
    with _opened(load(config)) as snapshots:
        if not any(name == broken for broken, _ in snapshots.listing().broken):
            snapshots.directory.get(name)  # raises for an unknown name before the question
    if not yes:
        confirm(f"delete snapshot {name}?")
    with _opened(load(config)) as snapshots:
        snapshots.delete(name)
    typer.echo(f"{name} deleted")


@app.command(
    epilog="Examples:\n\n  surelane snapshot restore orders-20260131-020000 --to /srv/restored --port 5433\n\n"
    "  surelane snapshot restore orders-20260131-020000 --to postgresql://postgres@127.0.0.1/shop_restored",
)
def restore(
    name: Name,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="basebackup: a new folder; dump: URL of a new database; rds: name of a new instance.",
            show_default=False,
        ),
    ],
    config: ConfigFile = None,
    port: RestoredPort = None,
    slots: RestoredSlots = None,
    no_owner: NoOwner = False,
    json_: Json = False,
) -> None:
    """Put one back somewhere else, never over anything, and say where its ledger ends.

    May be called again until it is done: it goes on, or begins anew. The original is not touched.
    """
    settings = load(config)
    destination = RestorePlace(to=to, port=port, max_prepared_transactions=slots, owners=not no_owner)
    with _opened(settings) as snapshots:
        stored, restored = snapshots.restore(name, destination)
    if json_:
        typer.echo(json.dumps(restored_json(stored, restored)))
        return
    typer.echo(restored_text(stored, restored))


@contextmanager
def _opened(settings: Settings) -> Iterator[Snapshots]:
    """Snapshots, with progress on stderr where that is a terminal."""
    with progress("snapshot") as say:
        yield Snapshots(settings, say)
