"""`./run bench-windows`: compare a windowed count with Flink's."""

from typing import Annotated

import typer

from tools.cli.bench import Report, Runs, Stack, command

app = typer.Typer(add_completion=False)

Messages = Annotated[int, typer.Option("--messages", min=1000, help="Messages of JSON.")]


@app.command(epilog="Example:\n\n  ./run bench-windows --runs 3 --report docs/COSTS.md")
def bench_windows(
    messages: Messages = 1_000_000, runs: Runs = 1, report: Report = None, stack: Stack = "bench"
) -> None:
    """Count messages by minute and key, as a query and in Flink SQL, both with RocksDB.

    A JSON line for each system and run on stdout, also appended to var/bench/results.jsonl. Ends with status 1 when a
    table is wrong or a system failed.
    """
    from tools.bench import report as reports
    from tools.bench import windows

    wanted = reports.Wanted(stack=stack, runs=runs, report=report, command=command())
    raise typer.Exit(0 if windows.run(wanted, messages) else 1)
