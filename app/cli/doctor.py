"""`surelane doctor`: all faults that would keep the lane from running, each with its remedy, in one run."""

import json
from dataclasses import asdict

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.common_options import ConfigFile, Json
from app.cli.doctor_checks.archive_check import archive
from app.cli.doctor_checks.dead_letter_check import dead_letters
from app.cli.doctor_checks.finding import Finding, Level
from app.cli.doctor_checks.guard_check import guard
from app.cli.doctor_checks.kafka_check import kafka
from app.cli.doctor_checks.machine_check import machine
from app.cli.doctor_checks.snapshot_check import snapshots
from app.cli.doctor_checks.target_check import ledger_position, target
from app.cli.doctor_checks.topic_check import topics
from app.config.loader import load
from app.config.settings import Settings
from app.errors import ExitStatus

COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAULT: "red"}

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples:\n\n  surelane doctor\n\n  surelane doctor --json | jq '.findings[] | select(.hint)'",
)
def doctor(config: ConfigFile = None, as_json: Json = False) -> None:
    """Check machine, Kafka, target, guard's database, snapshots, and say what to do about each fault. Changes nothing.

    Ends with status 10 when there is a fault; warnings alone give 0.
    """
    settings = load(config)
    findings = examine(settings)
    faults = sum(finding.level is Level.FAULT for finding in findings)
    if as_json:
        rows = [asdict(finding) for finding in findings]
        typer.echo(json.dumps({"lane": settings.lane, "faults": faults, "findings": rows}))
    else:
        _print(settings, findings, faults)
    raise typer.Exit(ExitStatus.FAULTS_FOUND if faults else ExitStatus.OK)


def examine(settings: Settings) -> list[Finding]:
    """All findings; a part that cannot be reached is one fault, and the other parts are checked."""
    position = ledger_position(settings)
    in_kafka = [*kafka(settings, position), *topics(settings, position), *dead_letters(settings)]
    there = [*machine(settings), *archive(settings), *in_kafka, *target(settings), *guard(settings)]
    return [*there, *snapshots(settings)]


def _print(settings: Settings, findings: list[Finding], faults: int) -> None:
    table = Table("check", "", "found", title=f"lane {settings.lane}", title_justify="left")
    for finding in findings:
        found = Text(finding.message)
        if finding.hint:
            found.append(f"\n-> {finding.hint}", style="bold")
        table.add_row(finding.check, Text(finding.level, style=COLOURS[finding.level]), found)
    console = Console()
    console.print(table)
    console.print(f"faults: {faults}", style="red" if faults else "green")
