"""`surelane upgrade`: the new version takes a lane over from the old one."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from app.cli.common_options import ConfigFile, Json
from app.cli.rendering import Document, offsets, show
from app.cli.terminal import progress
from app.config.loader import load
from app.savepoint.folder import SavepointFolder
from app.savepoint.upgrading import OldVersion, Upgraded
from app.savepoint.upgrading import upgrade as upgrade_lane

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples:\n\n  surelane upgrade --from /opt/surelane-1.4/bin/surelane\n\n"
    "  surelane upgrade --from 'docker exec lane surelane' --old-config old.yaml --config new.yaml --with-snapshot",
)
def upgrade(
    program: Annotated[
        str, typer.Option("--from", metavar="PROGRAM", help="The old version's command.", show_default=False)
    ],
    config: ConfigFile = None,
    old_config: Annotated[
        Path | None, typer.Option("--old-config", help="The old version's configuration; default: the same.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of the savepoint; default: lane and time.")] = None,
    allow: Annotated[
        list[str] | None, typer.Option("--allow-non-restored", help="An item whose loss is accepted. Several times.")
    ] = None,
    with_snapshot: Annotated[
        bool, typer.Option("--with-snapshot", help="Dump the target, too: the way back behind a migration.")
    ] = False,
    timeout: Annotated[int, typer.Option("--timeout", min=1, help="Seconds for the lane to end.")] = 120,
    json_: Json = False,
) -> None:
    """Stop a lane by its old version with a savepoint, and migrate the ledger for this one. Then start this version.

    Before the lane is stopped, the new configuration is compared with the running lane's; unless it fits, nothing is
    changed. Both versions need the same savepoints.directory.
    """
    settings = load(config)
    name = name or SavepointFolder(settings.savepoints.directory).free_name(settings.lane)
    old = OldVersion(program=shlex.split(program), config=old_config or config)
    with progress("upgrade") as say:
        done = upgrade_lane(
            settings,
            old,
            name,
            allowed=allow or (),
            with_snapshot=with_snapshot,
            seconds=timeout,
            progress=say,
        )
    show(upgraded_document(done, config), upgraded_text, as_json=json_)


def upgraded_document(done: Upgraded, config: Path | None) -> Document:
    words = ["surelane", "run", "--from-savepoint", done.savepoint.name, *(["--config", str(config)] if config else [])]
    return {**done.as_json(), "next": shlex.join(words)}


def upgraded_text(document: Document) -> Iterator[str]:
    at = offsets(document["position"])
    yield f"lane {document['lane']}: {document['old']} stopped it at {at}, savepoint {document['savepoint']}"
    if document["old_may_run"]:
        yield f"the ledger is at revision {document['after']}, as before: the old version may go on, too"
    else:
        yield f"the ledger went from revision {document['before']} to {document['after']}: the old version refuses it"
        yield "the way back is a snapshot of before: ops/runbooks/upgrade.md"
    yield f"start {document['new']}: {document['next']}"
