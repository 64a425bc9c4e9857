"""`./run bench-restart`: measure the downtime of a killed lane."""

from typing import Annotated

import typer

from tools.cli.bench import Rate, Report, Runs, Stack, command

app = typer.Typer(add_completion=False)

Before = Annotated[int, typer.Option("--before", min=1, help="Seconds of load before the kill.")]
After = Annotated[int, typer.Option("--after", min=1, help="Seconds of load from then on.")]


@app.command(epilog="Example:\n\n  ./run bench-restart --report docs/COSTS.md")
def bench_restart(
    rate: Rate = 1000,
    before: Before = 30,
    after: After = 40,
    runs: Runs = 3,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Kill a lane under a steady load (SIGKILL, all processes), start it again at once, and see when it is back.

    A JSON line for each kill on stdout, also appended to var/bench/results.jsonl; medians and goals on stderr. Ends
    with status 1 when a table is wrong, something is left prepared, or the lane failed.
    """
    from tools.bench import report as reports
    from tools.bench import restart

    wanted = reports.Wanted(stack=stack, runs=runs, report=report, command=command())
    load = restart.Load(rate=rate, before=before, after=after)
    raise typer.Exit(0 if restart.run(wanted, load) else 1)
