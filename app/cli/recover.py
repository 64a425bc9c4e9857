"""`surelane recover`: let a lane that stopped because target and checkpoint differ go on from the target's ledger."""

import json
from typing import Annotated

import typer

from app.cli.options import ConfigFile, Json
from app.config.load import load
from app.db.engine import make_engine
from app.kafka.broker import Broker
from app.recover.from_ledger import Recovery, recover_from_ledger

app = typer.Typer(add_completion=False)

FromLedger = Annotated[
    bool, typer.Option("--from-ledger", help="Forget the checkpoint; the next run resumes at the ledger's end.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check and say what would be done; change nothing.")]


@app.command(
    epilog="Examples:\n\n  surelane recover --from-ledger --dry-run\n\n"
    "  surelane recover --from-ledger && surelane run",
)
def recover(
    config: ConfigFile = None, from_ledger: FromLedger = False, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Resume a lane from the position in the target's own ledger.

    For exit status 6: the database was restored or failed over to an older copy, or a prepared transaction was rolled
    back by hand. Everything from that position on is read from Kafka and applied again; recover refuses when Kafka no
    longer holds it. The lane must not be running.
    """
    if not from_ledger:
        raise typer.BadParameter("say what to recover from: --from-ledger")
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


def _told(recovery: Recovery, *, dry_run: bool) -> str:
    replay = f"lane {recovery.lane}: from {recovery.position}, at most {recovery.messages} messages to replay"
    return f"{replay}; nothing was changed" if dry_run else f"{replay}. Next: surelane run"
