"""`surelane indoubt`: prepared transactions, the evidence on them, and answers by hand."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.caller import who
from app.cli.common_options import ConfigFile, Json, Query, settings_of
from app.cli.indoubt_view import (
    answers_document,
    answers_text,
    explain_text,
    given_document,
    given_text,
    list_document,
    list_text,
    transaction_document,
)
from app.cli.operator_access import in_doubt
from app.cli.rendering import show
from app.config.settings import Settings
from app.errors import Refused
from app.poison.storable_text import storable
from app.recover.answering import Answering
from app.recover.verdict import OperatorAnswer

app = typer.Typer(
    name="indoubt",
    help="Prepared transactions: list, explain, commit, rollback, answers. Looking works while the lane runs and while "
    "it does not; the start of a lane settles its own, so answers by hand are for when it cannot start.",
    add_completion=False,
    no_args_is_help=True,
)

#: default of --limit: the newest answers
SHOWN_ANSWERS = 50

GidText = Annotated[
    str, typer.Argument(metavar="GID", parser=storable, help="Name of the prepared transaction.", show_default=False)
]
Copy = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="A copy of the checkpoint, made after the lane ended.", show_default=False),
]
Force = Annotated[bool, typer.Option("--force", help="Also where the evidence does not ask for it; needs --reason.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; kept with the answer.")]


@app.command(
    "list",
    epilog="Examples:\n\n  surelane indoubt list\n\n"
    "  surelane indoubt list --json | jq -r '.transactions[] | select(.verdict == \"commit\") | .gid'",
)
def list_transactions(
    config: ConfigFile = None, query: Query = None, checkpoint: Copy = None, json_: Json = False
) -> None:
    """Show every prepared transaction of the database, the oldest first, with the verdict on each."""
    settings = settings_of(config, query)
    with in_doubt(settings, checkpoint) as (connection, observer):
        found = observer.overview(connection)
    show(list_document(settings.lane, found, settings.guard.redact), list_text, as_json=json_)


@app.command(
    epilog="Examples:\n\n  surelane indoubt explain surelane:orders:3:41\n\n"
    "  surelane indoubt explain surelane:orders:3:41 --checkpoint ./copy-of-checkpoint",
)
def explain(
    gid: GidText, config: ConfigFile = None, query: Query = None, checkpoint: Copy = None, json_: Json = False
) -> None:
    """Show one with the evidence, the verdict and why, its locks, and the sessions it blocks."""
    settings = settings_of(config, query)
    with in_doubt(settings, checkpoint) as (connection, observer):
        found = observer.find(connection, gid)
        if found is None:
            fate = observer.fate(connection, gid)
            raise Refused(f"{gid} is not prepared: {fate}", hint="surelane indoubt list")
    show(transaction_document(found, settings.guard.redact), explain_text, as_json=json_)


@app.command(
    epilog="Examples:\n\n  surelane indoubt commit surelane:orders:3:41\n\n"
    '  surelane indoubt commit surelane:orders:3:41 --force --reason "checkpoint is lost, see ticket"',
)
def commit(
    gid: GidText,
    config: ConfigFile = None,
    query: Query = None,
    checkpoint: Copy = None,
    force: Force = False,
    reason: Reason = None,
    json_: Json = False,
) -> None:
    """COMMIT PREPARED, where the verdict is commit. The lane must not be running."""
    settings = settings_of(config, query)
    _answer(OperatorAnswer.COMMIT, gid, settings, checkpoint, force=force, reason=reason, json_=json_)


@app.command(
    epilog="Examples:\n\n  surelane indoubt rollback surelane:orders:3:41\n\n"
    '  surelane indoubt rollback other-program-17 --force --reason "its program is gone, agreed with its owner"',
)
def rollback(
    gid: GidText,
    config: ConfigFile = None,
    query: Query = None,
    checkpoint: Copy = None,
    force: Force = False,
    reason: Reason = None,
    json_: Json = False,
) -> None:
    """ROLLBACK PREPARED, where the verdict is rollback or orphan. The lane must not be running."""
    _answer(
        OperatorAnswer.ROLLBACK, gid, settings_of(config, query), checkpoint, force=force, reason=reason, json_=json_
    )


@app.command(
    epilog="Examples:\n\n  surelane indoubt answers --limit 5\n\n"
    "  surelane indoubt answers surelane:orders:3:41 --json | jq '.answers[0].evidence'",
)
def answers(
    gid: Annotated[
        str | None,
        typer.Argument(metavar="[GID]", parser=storable, help="Only those to this one.", show_default=False),
    ] = None,
    config: ConfigFile = None,
    query: Query = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many at most.")] = SHOWN_ANSWERS,
    json_: Json = False,
) -> None:
    """Show the answers that were given by hand, or by a recovery, the newest first: what, by whom, why.

    Those of all lanes of the database. What a lane's own start answers is in its log.
    """
    settings = settings_of(config, query)
    with in_doubt(settings) as (connection, observer):
        found, total = observer.answers.past(connection, gid, limit)
    show(answers_document(settings.lane, found, total), answers_text, as_json=json_)


def _answer(
    answer: OperatorAnswer,
    gid: str,
    settings: Settings,
    checkpoint: Path | None,
    *,
    force: bool,
    reason: str | None,
    json_: bool,
) -> None:
    reason = storable(reason.strip()) if reason and reason.strip() else None
    if force and reason is None:
        raise typer.BadParameter('say why: --force needs --reason "..."')
    caller = who()
    with in_doubt(settings, checkpoint) as (connection, observer):
        answering = Answering(observer, os_user=caller.user, host=caller.host)
        done = answering.give(connection, gid, answer, reason=reason, force=force)
    show(given_document(done), given_text, as_json=json_)
