"""`./run stack`: start, stop and show the local stack (Kafka, Debezium, two Postgres servers; no containers)."""

import dataclasses
import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tools.devstack import Endpoints, Stack

app = typer.Typer(
    name="stack",
    help="The local stack: Kafka, Debezium, a source and a target Postgres, as processes of this machine.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Option("--name", help="Which stack; several can run side by side.")]
Json = Annotated[bool, typer.Option("--json", help="One line of JSON on stdout.")]


@app.command(
    epilog="Examples:\n\n  ./run stack up\n\n  ./run stack up --name trial --json | jq -r .target_url",
)
def up(name: Name = "default", as_json: Json = False) -> None:
    """Start what does not run, and return when everything does and the source is being captured.

    Data of an earlier run is kept. The first time takes longer: jars are fetched.
    """
    print(f"surelane: starting the stack {name}", file=sys.stderr)
    endpoints = Stack(name).up()
    if as_json:
        print(json.dumps(dataclasses.asdict(endpoints)))
    else:
        _show(endpoints)


@app.command(
    epilog="Examples:\n\n  ./run stack down\n\n  ./run stack down --name trial --wipe",
)
def down(
    name: Name = "default",
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove the stack's data too.")] = False,
) -> None:
    """Stop every process of the stack; nothing else is ever ended."""
    Stack(name).down(wipe=wipe)
    print(f"surelane: the stack {name} is down{', its data removed' if wipe else ''}", file=sys.stderr)


@app.command(
    epilog="Examples:\n\n  ./run stack status\n\n  ./run stack status --json",
)
def status(name: Name = "default", as_json: Json = False) -> None:
    """Show which parts run, and where. Ends with status 1 when one does not."""
    stack = Stack(name)
    parts = stack.status()
    if as_json:
        print(json.dumps({"data_dir": str(stack.data_dir), "parts": [dataclasses.asdict(part) for part in parts]}))
    else:
        table = Table("part", "state", "pid", "address", title=f"stack {name}: {stack.data_dir}", title_justify="left")
        for part in parts:
            state = "[green]running[/]" if part.running else "[red]down[/]"
            table.add_row(part.name, state, str(part.pid or ""), part.address or "never started")
        Console().print(table)
    raise typer.Exit(0 if all(part.running for part in parts) else 1)


def _show(endpoints: Endpoints) -> None:
    table = Table("what", "where", show_header=False)
    for field, value in dataclasses.asdict(endpoints).items():
        table.add_row(field, value)
    Console().print(table)
