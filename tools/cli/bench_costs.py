"""`./run bench-costs`: measure the cost of a message by size of each dimension, and the cost of each feature."""

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
Features = Annotated[
    bool, typer.Option("--features", help="Measure what each feature costs (guard, archive, modes, ...), instead.")
]


@app.command(
    epilog="Examples:\n\n  ./run bench-costs --report docs/COSTS.md\n\n"
    "  ./run bench-costs --features --runs 3 --report docs/COSTS.md\n\n"
    "  ./run bench-costs --axes columns --scale 0.1",
)
def bench_costs(
    axes: Axes = "messages,tables,columns,whole-columns,row-bytes,epoch-messages",
    scale: Scale = 1.0,
    runs: Runs = 1,
    features: Features = False,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Drain backlogs that differ in one thing: does what a message costs stay the same?

    By number of messages, tables, columns, bytes of a row, and messages of an epoch: CPU a message and a megabyte, peak
    memory, rate. A JSON line for each row on stdout, also appended to var/bench/results.jsonl; tables and a verdict on
    stderr. A row that fails says why, and the rest goes on. Ends with status 1 when one failed or its table is wrong.
    """
    from tools.bench import costs
    from tools.bench import features as of_features
    from tools.bench.axes import NAMES

    chosen = words(axes)
    known("--axes", chosen, NAMES)
    wanted = costs.Wanted(stack=stack, axes=chosen, scale=scale, runs=runs, report=report, command=command())
    raise typer.Exit(0 if (of_features.run(wanted) if features else costs.run(wanted)) else 1)
