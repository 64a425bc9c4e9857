"""`./run bench-start`: measure what the start of a lane is made of."""

import typer

from tools.cli.bench import Modes, Report, Runs, Stack, command, known, words

app = typer.Typer(add_completion=False)


@app.command(epilog="Example:\n\n  ./run bench-start --report docs/COSTS.md")
def bench_start(
    modes: Modes = "two-phase,ledger",
    runs: Runs = 5,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Start a lane on a short backlog, and see when each part of the start is done and the first rows are visible.

    A JSON line for each start on stdout, also appended to var/bench/results.jsonl; medians and the goal on stderr.
    Ends with status 1 when a table is wrong, something is left prepared, or the lane failed.
    """
    from tools.bench import report as reports
    from tools.bench import start
    from tools.bench.lane import MODES

    chosen = words(modes)
    known("--modes", chosen, MODES)
    wanted = reports.Wanted(stack=stack, runs=runs, report=report, command=command())
    raise typer.Exit(0 if start.run(wanted, chosen) else 1)
