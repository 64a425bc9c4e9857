"""`./run bench-peers`: compare a lane's speed with other systems on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from tools.cli.bench import REHEARSAL, Rehearsal, Seconds, WarmUp, command, known, milliseconds, numbers, words

app = typer.Typer(add_completion=False)

Messages = Annotated[str, typer.Option("--messages", help="Messages of each backlog. With commas.")]
Runs = Annotated[int, typer.Option("--runs", min=1, help="How often all of it is measured; medians are compared.")]
Systems = Annotated[
    str,
    typer.Option(
        "--systems",
        help="surelane, surelane-ledger, surelane-at-least-once, flink-table, flink-xa, seatunnel-xa, debezium-jdbc, "
        "replication, ceiling: which, with commas.",
    ),
]
Measures = Annotated[str, typer.Option("--measures", help="drain: a backlog; latency: at steady rates. With commas.")]
Workloads = Annotated[
    str, typer.Option("--workloads", help="uniform; hot: few rows changed again and again. With commas.")
]
Rates = Annotated[str, typer.Option("--rates", help="Messages a second while latency is measured. With commas.")]
RoundTrips = Annotated[
    str,
    typer.Option(
        "--round-trip",
        help="Milliseconds between each system and Postgres, by a proxy: everything once for each. With commas.",
    ),
]
Attempts = Annotated[
    int, typer.Option("--attempts", min=1, help="How often what others disturbed is measured; the quietest counts.")
]
Report = Annotated[
    Path | None,
    typer.Option("--report", help="Write sections of this Markdown file, and benchmarks.svg beside it."),
]
Stack = Annotated[str, typer.Option("--stack", help="Name of its own stack of local servers.")]


@app.command(
    epilog="Examples:\n\n  ./run bench-peers --report docs/BENCHMARKS.md\n\n"
    "  ./run bench-peers --measures latency --rates 100,1000,10000 --report docs/BENCHMARKS.md\n\n"
    "  ./run bench-peers --measures drain,latency --messages 250000 --workloads uniform --round-trip 0.1,1,2.5,10\n\n"
    "  ./run bench-peers --systems surelane,flink-table --messages 200000 --runs 1 | jq .rate",
)
def bench_peers(
    messages: Messages = "1000000,2000000",
    runs: Runs = 3,
    systems: Systems = "surelane,flink-table,flink-xa,debezium-jdbc,replication,ceiling",
    measures: Measures = "drain",
    workloads: Workloads = "uniform,hot",
    rates: Rates = "1000",
    seconds: Seconds = 30,
    warm_up: WarmUp = 10,
    rehearsal: Rehearsal = REHEARSAL,
    round_trip: RoundTrips = "",
    attempts: Attempts = 3,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Let Surelane and other systems drain the same topic into the same tables, in one run, and compare them.

    A JSON line for each measurement on stdout, also appended to var/bench/results.jsonl; tables with ratios and the
    project's goals on stderr. Each table is compared with what it is to be; status 1 when one is wrong or a system
    failed. What the others need is fetched once (about 230 MB), pinned by hash; Java is all that they ask for.
    """
    from tools.bench.compared import MEASURES
    from tools.bench.comparison import Wanted, run
    from tools.bench.systems import SYSTEMS
    from tools.bench.workload import Kind

    chosen, kinds, asked = words(systems), words(workloads), words(measures)
    known("--systems", chosen, SYSTEMS)
    known("--workloads", kinds, [Kind.UNIFORM, Kind.HOT])
    known("--measures", asked, MEASURES)
    wanted = Wanted(
        stack=stack,
        runs=runs,
        report=report,
        command=command(),
        systems=[SYSTEMS[name] for name in chosen],
        measures=asked,
        messages=numbers("--messages", messages),
        workloads=[Kind(kind) for kind in kinds],
        rates=numbers("--rates", rates),
        seconds=seconds,
        warm_up=warm_up,
        rehearsal=rehearsal,
        attempts=attempts,
        round_trips=milliseconds("--round-trip", round_trip),
    )
    raise typer.Exit(0 if run(wanted) else 1)
