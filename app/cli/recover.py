"""`surelane recover`: let a lane that stopped because target and checkpoint differ go on from the target's ledger; and
the plan of getting a target back from a snapshot."""

import json
from pathlib import Path
from typing import Annotated

import typer

from app.cli.options import ConfigFile, Json
from app.cli.recover_view import plan_json, plan_told
from app.config.load import load
from app.db.engine import make_engine
from app.errors import ExitStatus
from app.kafka.broker import Broker
from app.recover.from_ledger import Recovery, recover_from_ledger
from app.recover.plan import make_plan
from app.snapshot.folder import Directory

app = typer.Typer(name="recover", add_completion=False)

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
        raise typer.BadParameter("say what to recover from: --from-ledger, or `plan --snapshot NAME`")
    settings = load(config)
    engine = make_engine(settings.target.url, settings.target.owner_role, "surelane recover")
    with Broker(settings.source) as broker:
        found = recover_from_ledger(settings, engine, broker, dry_run=dry_run)
    if as_json:
        lanes = [{"lane": r.lane, "position": r.position.nested(), "messages_at_most": r.messages} for r in found]
        typer.echo(json.dumps({"lanes": lanes, "done": not dry_run}))
        return
    for recovery in found:
        typer.echo(_told(recovery, dry_run=dry_run))


@app.command(
    epilog="Examples:\n\n  surelane recover plan --snapshot orders-20260131-020000\n\n"
    "  surelane recover plan --snapshot orders-20260131-020000 --json | jq .messages_at_most",
)
def plan(
    snapshot: Annotated[
        str, typer.Option("--snapshot", metavar="NAME", help="Of `surelane snapshot list`.", show_default=False)
    ],
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Say how to get the target back from a snapshot: checks, steps, what would be lost, how much is replayed.

    Changes nothing, and does not need the target. Ends with status 6 when a check says that it does not lead there.
    """
    settings = load(config)
    stored = Directory(Path(settings.snapshots.directory)).get(snapshot)
    with Broker(settings.source) as broker:
        made = make_plan(settings, stored, broker)
    typer.echo(json.dumps(plan_json(made)) if as_json else plan_told(made))
    if not made.ok:
        raise typer.Exit(ExitStatus.DIVERGED)


def _told(recovery: Recovery, *, dry_run: bool) -> str:
    replay = f"lane {recovery.lane}: from {recovery.position}, at most {recovery.messages} messages to replay"
    return f"{replay}; nothing was changed" if dry_run else f"{replay}. Next: surelane run"
