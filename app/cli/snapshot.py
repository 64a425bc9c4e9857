"""`surelane snapshot`: takes snapshots of the target while the lane runs, and restores them in another place."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from app.cli.common_options import ConfigFile, Json, NoOwner, Replayable, RestoredPort, RestoredSlots
from app.cli.rendering import show
from app.cli.replayable_view import replayable_documents
from app.cli.snapshot_view import (
    listing_document,
    listing_text,
    made_document,
    made_text,
    restored_document,
    restored_text,
    verified_document,
    verified_text,
)
from app.cli.terminal import confirm, progress
from app.config.loader import load
from app.config.settings import Settings, SnapshotDriver
from app.errors import ExitStatus
from app.kafka.broker import Broker
from app.snapshot.driver import RestorePlace
from app.snapshot.snapshots import Snapshots

app = typer.Typer(
    name="snapshot",
    help="Snapshots of the target: create, list, verify, delete, restore. Works while the lane runs and while it does "
    "not, and needs neither Kafka (but for list --replayable) nor Java.",
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
    show(made_document(made), made_text, as_json=json_)


@app.command(
    "list",
    epilog="Examples:\n\n  surelane snapshot list\n\n  surelane snapshot list --json | jq -r '.snapshots[-1].name'\n\n"
    "  surelane snapshot list --replayable",
)
def list_snapshots(config: ConfigFile = None, replayable: Replayable = False, json_: Json = False) -> None:
    """Show the snapshots that are whole, the oldest first."""
    settings = load(config)
    with _opened(settings) as snapshots:
        found = snapshots.listing()
    document = listing_document(found, snapshots.directory.root)
    if replayable:
        with Broker(settings.source) as broker:
            document["replayable"] = replayable_documents(settings, broker, document["snapshots"])
    show(document, listing_text, as_json=json_)


@app.command(
    epilog="Examples:\n\n  surelane snapshot verify orders-20260131-020000\n\n"
    "  surelane snapshot verify orders-20260131-020000 --json | jq '.faults[]'",
)
def verify(name: Name, config: ConfigFile = None, json_: Json = False) -> None:
    """Read all of one again: checksums, and what Postgres' own tools say (pg_verifybackup, pg_restore --list).

    Ends with status 16 when something differs. Whether its rows are right is shown by a restore and `surelane verify`.
    """
    with _opened(load(config)) as snapshots:
        faults = snapshots.faults(name)
        stored = snapshots.directory.get(name)
    show(verified_document(stored, faults), verified_text, as_json=json_)
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
    show(restored_document(stored, restored), restored_text, as_json=json_)


@contextmanager
def _opened(settings: Settings) -> Iterator[Snapshots]:
    """Snapshots, with progress on stderr where that is a terminal."""
    with progress("snapshot") as say:
        yield Snapshots(settings, say)
