"""`./run bench-costs`: measure the cost of a message by size of each dimension, and the cost of the guard."""

from typing import Annotated

import typer

from tools.cli.bench import Report, Runs, Stack, command, known, words

app = typer.Typer(add_completion=False)

Axes = Annotated[
    str,
    typer.Option(
        "--axes", help="messages, tables, columns, whole-columns, row-bytes, epoch-messages: which, with commas."
    ),
]
Scale = Annotated[
    float, typer.Option("--scale", min=0.0001, max=1.0, help="Everything smaller by this factor, epochs too.")
]
Guard = Annotated[bool, typer.Option("--guard", help="Measure what the guard, accounting and metrics cost, instead.")]
Rollups = Annotated[bool, typer.Option("--rollups", help="Measure what two rollups cost, instead.")]
Pairs = Annotated[int, typer.Option("--pairs", min=1, help="With --guard and --rollups: drains with and without.")]


@app.command(
    epilog="Examples:\n\n  ./run bench-costs --report docs/COSTS.md\n\n"
    "  ./run bench-costs --guard --pairs 5 --report docs/COSTS.md\n\n"
    "  ./run bench-costs --rollups --pairs 5 --report docs/COSTS.md\n\n"
    "  ./run bench-costs --axes columns --scale 0.1",
)
def bench_costs(
    axes: Axes = "messages,tables,columns,whole-columns,row-bytes,epoch-messages",
    scale: Scale = 1.0,
    runs: Runs = 1,
    guard: Guard = False,
    rollups: Rollups = False,
    pairs: Pairs = 5,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Drain backlogs that differ in one thing: does what a message costs stay the same?

    By number of messages, tables, columns, bytes of a row, and messages of an epoch: CPU a message and a megabyte, peak
    memory, rate. A JSON line for each row on stdout, also appended to var/bench/results.jsonl; tables and a verdict on
    stderr. A row that fails says why, and the rest goes on. Ends with status 1 when one failed or its table is wrong.
    """
    from tools.bench.costs import guard as guarding
    from tools.bench.costs import rollups as rolling_up
    from tools.bench.costs import suite
    from tools.bench.costs.axes import NAMES

    chosen = words(axes)
    known("--axes", chosen, NAMES)
    wanted = suite.Wanted(stack=stack, axes=chosen, scale=scale, runs=runs, report=report, command=command())
    right = guarding.run(wanted, pairs) if guard else rolling_up.run(wanted, pairs) if rollups else suite.run(wanted)
    raise typer.Exit(0 if right else 1)
