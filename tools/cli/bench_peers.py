"""`./run bench-peers`: compare a lane's speed with other systems on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from tools.cli.bench import Rate, Seconds, WarmUp, command, known, numbers, words

app = typer.Typer(add_completion=False)

Messages = Annotated[str, typer.Option("--messages", help="Messages of each backlog. With commas.")]
Runs = Annotated[int, typer.Option("--runs", min=1, help="How often all of it is measured; medians are compared.")]
Systems = Annotated[
    str,
    typer.Option("--systems", help="surelane, flink-table, flink-xa, debezium-jdbc, ceiling: which, with commas."),
]
Workloads = Annotated[
    str, typer.Option("--workloads", help="uniform; hot: few rows changed again and again. With commas.")
]
Latency = Annotated[
    bool, typer.Option("--latency", help="Hold a steady rate too, each system in turn; Surelane also at 10,000/s.")
]
Report = Annotated[
    Path | None,
    typer.Option("--report", help="Write the tables to this Markdown file, and benchmarks.svg beside it."),
]
Stack = Annotated[str, typer.Option("--stack", help="Name of its own stack of local servers.")]


@app.command(
    epilog="Examples:\n\n  ./run bench-peers --latency --report docs/BENCHMARKS.md\n\n"
    "  ./run bench-peers --systems surelane,flink-table --messages 200000 --runs 1 | jq .rate",
)
def bench_peers(
    messages: Messages = "1000000,2000000",
    runs: Runs = 3,
    systems: Systems = "surelane,flink-table,flink-xa,debezium-jdbc,ceiling",
    workloads: Workloads = "uniform,hot",
    latency: Latency = False,
    rate: Rate = 1000,
    seconds: Seconds = 30,
    warm_up: WarmUp = 10,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Let Surelane, Flink and Debezium drain the same topic into the same tables, in one run, and compare them.

    A JSON line for each measurement on stdout, also appended to var/bench/results.jsonl; tables with ratios and the
    project's goals on stderr. Each table is compared with what it is to be; status 1 when one is wrong or a system
    failed. What the others need is fetched once (about 230 MB), pinned by hash; Java is all that they ask for.
    """
    from tools.bench.peers.suite import Wanted, run
    from tools.bench.peers.system import System
    from tools.bench.workload import Kind

    chosen, kinds = words(systems), words(workloads)
    known("--systems", chosen, list(System))
    known("--workloads", kinds, [Kind.UNIFORM, Kind.HOT])
    wanted = Wanted(
        stack=stack,
        messages=numbers("--messages", messages),
        workloads=[Kind(kind) for kind in kinds],
        systems=[System(name) for name in chosen],
        runs=runs,
        seconds=seconds if latency else 0,
        rate=rate,
        warm_up=warm_up,
        page=report,
        command=command(),
    )
    raise typer.Exit(0 if run(wanted) else 1)
