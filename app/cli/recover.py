"""`surelane recover`: lets a lane whose target and checkpoint differ go on from the target's ledger, accepts gaps, and
plans and runs the recovery of a target from a snapshot."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.engine import URL

from app.cli.caller import Caller, who
from app.cli.common_options import (
    ConfigFile,
    Json,
    NoOwner,
    Query,
    RestoredPort,
    RestoredSlots,
    database_url,
    settings_of,
)
from app.cli.comparing import Tables, Wait, comparing
from app.cli.gap_view import gaps_document, gaps_text
from app.cli.recover_view import (
    RecoveryProgress,
    course_text,
    plan_document,
    plan_text,
    recovered_document,
    recovered_text,
    resumed_document,
    resumed_text,
)
from app.cli.rendering import show
from app.cli.verify_view import sentence, verify_document
from app.config.settings import Settings
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.errors import ExitStatus
from app.kafka.broker import Broker
from app.poison.guard_database import forget_suspects
from app.recover.from_ledger import recover_from_ledger
from app.recover.gap import accept as accept_gap
from app.recover.gap import look
from app.recover.journal import course
from app.recover.recovering import Recovering, RecoveryOptions
from app.recover.recovery_plan import PlanCheck, make_plan
from app.snapshot.driver import RestorePlace
from app.snapshot.snapshot_directory import Directory
from app.verify.pairs import Choice

app = typer.Typer(name="recover", add_completion=False)
#: `--to` for a caller that keeps a password off the command line
TO_VARIABLE = "SURELANE_RECOVER_TO"

Name = Annotated[
    str, typer.Option("--snapshot", metavar="NAME", help="Of `surelane snapshot list`.", show_default=False)
]

FromLedger = Annotated[
    bool, typer.Option("--from-ledger", help="Forget the checkpoint; the next run resumes at the ledger's end.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check and say what would be done; change nothing.")]


@app.callback(
    invoke_without_command=True,
    epilog="Examples:\n\n  surelane recover --from-ledger --dry-run\n\n"
    "  surelane recover --from-ledger && surelane run\n\n  surelane recover plan --snapshot orders-20260131-020000",
)
def recover(
    context: typer.Context,
    config: ConfigFile = None,
    query: Query = None,
    from_ledger: FromLedger = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Resume a lane from the position in the target's own ledger.

    For exit status 6: the database was restored or failed over to an older copy, or a prepared transaction was rolled
    back by hand. Everything from that position on is read from Kafka and applied again; recover refuses when Kafka no
    longer holds it. The lane must not be running.
    """
    if context.invoked_subcommand is not None:
        sources = map(context.get_parameter_source, context.params)
        if any(source is not None and source.name == "COMMANDLINE" for source in sources):
            raise typer.BadParameter(f"options belong behind `{context.invoked_subcommand}`")
        return
    if not from_ledger:
        raise typer.BadParameter(
            "say what to recover from: --from-ledger, or `plan --snapshot NAME`, or `run`; or look for a `gap`"
        )
    settings = settings_of(config, query)
    engine = make_engine(settings.target.url, settings.target.owner_role, "surelane recover")
    with Broker(settings.source) as broker:
        found = recover_from_ledger(settings, engine, broker, dry_run=dry_run)
    show(resumed_document(found, done=not dry_run), resumed_text, as_json=as_json)


@app.command(
    epilog="Examples:\n\n  surelane recover gap\n\n"
    '  surelane recover gap --accept --reason "retention passed, tables are snapshotted anew, ticket 17"',
)
def gap(
    config: ConfigFile = None,
    query: Query = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Go on behind what is missing; needs --reason. It stays on record.")
    ] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; needed with --accept.")] = None,
    as_json: Json = False,
) -> None:
    """Say which messages the target still needs and Kafka no longer has; with --accept, go on behind them.

    Retention may have deleted them, or the topic was deleted and created again. Without --accept nothing is changed,
    and status 6 says that something is missing. With it the lane goes on where Kafka has everything, the target stays
    without what is missing, and both are on record.
    """
    if accept != bool((reason or "").strip()):
        raise typer.BadParameter('--accept and --reason "..." belong together')
    settings = settings_of(config, query)
    engine = make_engine(settings.target.url, settings.target.owner_role, "surelane recover")
    with Broker(settings.source) as broker, translated("looking for a gap"), engine.begin() as connection:
        found = look(settings, connection, broker)
        caller = who()
        done = []
        if accept and reason is not None:
            done = accept_gap(
                settings,
                connection,
                broker,
                reason=reason,
                who=(caller.user, caller.host),
                forget=lambda lane: forget_suspects(settings, lane),
            )
    show(gaps_document(found, done), gaps_text, as_json=as_json)
    if not accept and any(one.is_one for one in found.gaps):
        raise typer.Exit(ExitStatus.DIVERGED)


@app.command(
    epilog="Examples:\n\n  surelane recover plan --snapshot orders-20260131-020000\n\n"
    "  surelane recover plan --snapshot orders-20260131-020000 --json | jq .messages_at_most",
)
def plan(
    snapshot: Name,
    config: ConfigFile = None,
    query: Query = None,
    as_json: Json = False,
) -> None:
    """Say how to get the target back from a snapshot: checks, steps, what would be lost, how much is replayed.

    Changes nothing, and does not need the target. Ends with status 6 when a check says that it does not lead there.
    """
    settings = settings_of(config, query)
    stored = Directory(Path(settings.snapshots.directory)).get(snapshot)
    with Broker(settings.source) as broker:
        made = make_plan(settings, stored, broker)
    show(plan_document(made), plan_text, as_json=as_json)
    if not made.ok:
        raise typer.Exit(ExitStatus.DIVERGED)


@app.command(
    epilog="Examples:\n\n  surelane recover run --snapshot orders-20260131-020000 --to /srv/restored --port 5433\n\n"
    "  surelane recover run --snapshot orders-20260131-020000 --status",
)
def run(
    snapshot: Name,
    config: ConfigFile = None,
    query: Query = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            envvar=TO_VARIABLE,
            metavar="PLACE",
            help="basebackup: a new folder; dump: URL of a new database; rds: name of a new instance. Not needed to go "
            "on.",
            show_default=False,
        ),
    ] = None,
    port: RestoredPort = None,
    slots: RestoredSlots = None,
    no_owner: NoOwner = False,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="How the lane reaches the restored target.", show_default="target.url, there"
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            envvar="SURELANE_AGAINST",
            metavar="URL",
            help="Compare with this database in the end, the source say.",
            show_default=False,
        ),
    ] = None,
    same_names: Annotated[
        bool, typer.Option("--same-names", help="--against is a copy or a replay, with the target's own names.")
    ] = False,
    tables: Tables = None,
    wait: Wait = 0.0,
    foreign: Annotated[
        bool, typer.Option("--roll-back-foreign", help="Also what other programs had prepared there.")
    ] = False,
    anew: Annotated[bool, typer.Option("--anew", help="Give up what an earlier call began, and begin anew.")] = False,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why; stays on record in the journal.", show_default=False)
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="NAME",
            help="Who asked for it, where a program calls this for a person; on record in place of this process' user.",
            show_default=False,
        ),
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Say how far it has come; do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Get the target back from a snapshot, at a new place: the plan, step by step, up to its end.

    Killed or failed, call it again: it goes on where it stopped. A finished one is not repeated. The original is not
    touched. Ends with status 16 when what it made is not right.
    """
    settings = settings_of(config, query)
    stored = Directory(Path(settings.snapshots.directory)).get(snapshot)
    if status:
        show({"snapshot": snapshot, **course(stored).as_json()}, course_text, as_json=as_json)
        return
    destination = None
    if to is not None:
        destination = RestorePlace(to=to, port=port, max_prepared_transactions=slots, owners=not no_owner)
    elif port is not None or slots is not None or no_owner:
        raise typer.BadParameter("--port, --max-prepared-transactions and --no-owner belong to --to")
    options = RecoveryOptions(
        destination=destination,
        url=database_url(url) if url else None,
        foreign=foreign,
        anew=anew,
        reason=(reason or "").strip() or None,
    )
    choice, url_against = Choice(tuple(tables or ()), same_names=same_names), database_url(against) if against else None
    caller = who() if by is None else Caller(by, who().host)
    with RecoveryProgress(quiet=as_json) as progress:
        done = Recovering(
            settings,
            options,
            lane=_lane(config),
            compare=_comparing(settings, url_against, choice, progress, wait) if url_against else None,
            who=(caller.user, caller.host),
            say=progress.say,
            progress=progress.progress,
        ).run(snapshot)
    show(recovered_document(done), recovered_text, as_json=as_json)
    if not done.ok:
        raise typer.Exit(ExitStatus.DIFFERENT)


def _lane(config: Path | None) -> list[str]:
    """The command that runs the lane until it has caught up."""
    options = ["--config", str(config)] if config else []
    return [sys.executable, "-m", "app.cli", "run", "--until-caught-up", *options]


def _comparing(
    original: Settings, against: URL, choice: Choice, progress: RecoveryProgress, wait: float
) -> Callable[[Settings], PlanCheck]:
    """The comparison at the end of a recovery; raises BadParameter for wrong options before anything is done."""
    comparing(original, against, choice, progress.progress)

    def compare(settings: Settings) -> PlanCheck:
        outcome = comparing(settings, against, choice, progress.progress).run(wait)
        hint = "" if outcome.equal else ". Which: surelane verify --against, with the restored target.url"
        return PlanCheck(what="comparison", ok=outcome.equal, said=f"{sentence(verify_document(outcome, 0))}{hint}")

    return compare
