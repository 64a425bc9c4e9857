"""`./run bench-recovery`: measure what an epoch's size means for latency, CPU and recovery."""

from typing import Annotated

import typer

from tools.cli.bench import Report, Runs, Stack, command

app = typer.Typer(add_completion=False)

Rates = Annotated[str, typer.Option("--rates", help="Messages a second, with commas between.")]
Triggers = Annotated[str, typer.Option("--triggers", help="Values of epoch.trigger, with commas between.")]
Before = Annotated[int, typer.Option("--before", min=2, help="Seconds of load before the kill.")]
After = Annotated[int, typer.Option("--after", min=1, help="Seconds of load from then on.")]


@app.command(epilog="Example:\n\n  ./run bench-recovery --report docs/COSTS.md")
def bench_recovery(
    rates: Rates = "1000,5000",
    triggers: Triggers = "0 seconds,2 seconds,10 seconds",
    before: Before = 40,
    after: After = 20,
    runs: Runs = 1,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Kill lanes under a steady load, with epochs that gather for a while, and see what each costs and loses.

    A JSON line for each kill on stdout, also appended to var/bench/results.jsonl. Ends with status 1 when a table is
    wrong, something is left prepared, or a lane failed.
    """
    from tools.bench import report as reports
    from tools.bench import restart

    wanted = reports.Wanted(stack=stack, runs=runs, report=report, command=command())
    loads = [
        restart.Load(rate=int(rate), before=before, after=after, trigger=trigger.strip())
        for rate in rates.split(",")
        for trigger in triggers.split(",")
    ]
    raise typer.Exit(0 if restart.run_recovery(wanted, loads) else 1)
