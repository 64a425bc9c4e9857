"""`./run bench-burst`: measure how soon the last epoch of a burst is visible."""

from typing import Annotated

import typer

from tools.cli.bench import Report, Runs, Stack, command

app = typer.Typer(add_completion=False)

Size = Annotated[int, typer.Option("--size", min=1, help="Messages of a burst.")]
Bursts = Annotated[int, typer.Option("--bursts", min=1, help="How many are measured.")]


@app.command(epilog="Example:\n\n  ./run bench-burst --report docs/COSTS.md")
def bench_burst(
    size: Size = 5000, bursts: Bursts = 20, runs: Runs = 1, report: Report = None, stack: Stack = "bench"
) -> None:
    """Send bursts to an idle lane, and see how long after its checkpoint entry the last epoch becomes visible.

    A JSON line for each run on stdout, also appended to var/bench/results.jsonl. Ends with status 1 when the table is
    wrong or the lane failed.
    """
    from tools.bench import burst
    from tools.bench import report as reports

    wanted = reports.Wanted(stack=stack, runs=runs, report=report, command=command())
    raise typer.Exit(0 if burst.run(wanted, size, bursts) else 1)
