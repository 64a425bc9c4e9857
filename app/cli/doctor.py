"""`surelane doctor`: all faults that would keep the lane from running, each with its remedy, in one run."""

from collections.abc import Iterator
from dataclasses import asdict

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from app.cli.common_options import ConfigFile, Json, Query, settings_of
from app.cli.doctor_checks.archive_check import archive
from app.cli.doctor_checks.dead_letter_check import dead_letters
from app.cli.doctor_checks.finding import Finding, Level
from app.cli.doctor_checks.guard_check import guard
from app.cli.doctor_checks.kafka_check import kafka
from app.cli.doctor_checks.machine_check import machine
from app.cli.doctor_checks.snapshot_check import snapshots
from app.cli.doctor_checks.target_check import ledger_position, target
from app.cli.doctor_checks.topic_check import topics
from app.cli.rendering import Document, printable, show
from app.config.settings import Settings
from app.errors import ExitStatus

COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAULT: "red"}

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples:\n\n  surelane doctor\n\n  surelane doctor --json | jq '.findings[] | select(.hint)'",
)
def doctor(config: ConfigFile = None, query: Query = None, as_json: Json = False) -> None:
    """Check machine, Kafka, target, guard's database, snapshots, and say what to do about each fault. Changes nothing.

    Ends with status 10 when there is a fault; warnings alone give 0.
    """
    settings = settings_of(config, query)
    document = findings_document(settings.lane, examine(settings))
    show(document, findings_text, as_json=as_json)
    raise typer.Exit(ExitStatus.FAULTS_FOUND if document["faults"] else ExitStatus.OK)


def examine(settings: Settings, *, only_looks: bool = False) -> list[Finding]:
    """All findings; a part that cannot be reached is one fault, and the other parts are checked. `only_looks`: for a
    process beside the lane, which writes nothing."""
    position = ledger_position(settings)
    in_kafka = [*kafka(settings, position), *topics(settings, position), *dead_letters(settings)]
    here = [*machine(settings, only_looks=only_looks), *archive(settings)]
    return [*here, *in_kafka, *target(settings), *guard(settings), *snapshots(settings)]


def findings_document(lane: str, findings: list[Finding]) -> Document:
    faults = sum(finding.level is Level.FAULT for finding in findings)
    return {"lane": lane, "faults": faults, "findings": [asdict(finding) for finding in findings]}


def findings_text(document: Document) -> Iterator[RenderableType]:
    table = Table("check", "", "found", title=f"lane {document['lane']}", title_justify="left")
    for finding in document["findings"]:
        found = Text(printable(finding["message"]))
        if finding["hint"]:
            found.append(printable(f"\n-> {finding['hint']}"), style="bold")
        table.add_row(finding["check"], Text(finding["level"], style=COLOURS[finding["level"]]), found)
    yield table
    yield Text(f"faults: {document['faults']}", style="red" if document["faults"] else "green")
