"""`./run bench-soak`: sample a lane's resource usage under a steady load, and judge whether it grows."""

from typing import Annotated

import typer

from tools.cli.bench import Rate, Report, Stack, command

app = typer.Typer(add_completion=False)

Minutes = Annotated[float, typer.Option("--minutes", min=0.1, help="How long the load is held.")]
Query = Annotated[bool, typer.Option("--query", help="A query that counts changes by window and key.")]
Every = Annotated[float, typer.Option("--every", min=1, help="Seconds between two samples.")]


@app.command(epilog="Example:\n\n  ./run bench-soak --minutes 60 --rate 1000 --report docs/COSTS.md")
def bench_soak(
    minutes: Minutes = 60.0,
    rate: Rate = 1000,
    every: Every = 10.0,
    query: Query = False,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Hold a steady load for long, and look again and again what the lane, or a query, holds.

    Memory, threads and open files of its processes, its checkpoint, its tables in the target, how late it is: a JSON
    line for each sample on stdout, also appended to var/bench/results.jsonl; then whether it grows, and whether the
    table is right. With `--report`, a picture beside the page. Ends with status 1 when the table is wrong or the lane
    failed.
    """
    from tools.bench.soak import Wanted, run

    wanted = Wanted(
        stack=stack,
        runs=1,
        report=report,
        command=command(),
        minutes=minutes,
        rate=rate,
        every=every,
        query=query,
    )
    raise typer.Exit(0 if run(wanted) else 1)
