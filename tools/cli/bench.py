"""`./run bench` and `./run bench-...`: measure Surelane on this machine, also beside other systems."""

import shlex
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from app.errors import ConfigInvalid

if TYPE_CHECKING:
    from tools.bench.report import Measure

app = typer.Typer(add_completion=False)

# of several commands
Modes = Annotated[str, Option("--modes", help="Commit modes to drain it in, with commas.")]
Seconds = Annotated[int, Option("--seconds", min=1, help="How long a rate is held for latency.")]
Rate = Annotated[int, Option("--rate", min=1, help="Messages a second while latency is measured.")]
WarmUp = Annotated[int, Option("--warm-up", min=1, help="Seconds at that rate before anything counts.")]
#: seconds
REHEARSAL = 30
Rehearsal = Annotated[
    int,
    Option(
        "--rehearsal", min=0, help="Seconds of each system before any latency is measured, so that the broker is warm."
    ),
]
Runs = Annotated[int, Option("--runs", min=1, help="How often all of it is measured.")]
Stack = Annotated[str, Option("--stack", help="Name of its own stack of local servers.")]
Report = Annotated[
    Path | None, Option("--report", help="Write the result into its own sections of this Markdown file.")
]
After = Annotated[int, Option("--after", min=1, help="Seconds of load from then on.")]


def measure(measured: "Measure", stack: str, runs: int, report: Path | None = None, attempts: int = 1) -> None:
    """Run it, and end with status 1 when something went wrong."""
    from tools.bench.report import run

    command = shlex.join(["./run", *sys.argv[1:]])
    raise typer.Exit(0 if run(measured, stack, runs, report, command, attempts) else 1)


def words(option: str, text: str, known: Collection[str]) -> list[str]:
    """Those between commas; raises ConfigInvalid for one that is not in `known`."""
    found = _split(text)
    if strangers := [word for word in found if word not in known]:
        raise ConfigInvalid(f"{option}: {', '.join(strangers)} is unknown", hint=f"known: {', '.join(known)}")
    return found


def numbers(option: str, text: str) -> list[int]:
    """Positive numbers between commas; raises ConfigInvalid."""
    found = _split(text)
    if not found or not all(word.isdecimal() and int(word) for word in found):
        raise ConfigInvalid(f"{option}: {text!r} is not a list of numbers", hint="1000, or 1000,2000")
    return [int(word) for word in found]


def milliseconds(option: str, text: str) -> list[float]:
    """Numbers between commas; raises ConfigInvalid."""
    found = _split(text)
    if not all(word.replace(".", "", 1).isdecimal() for word in found):
        raise ConfigInvalid(f"{option}: {text!r} are no milliseconds", hint="0.1,1,2.5,10")
    return [float(word) for word in found]


def _split(text: str) -> list[str]:
    """Blank entries are dropped."""
    return [word.strip() for word in text.split(",") if word.strip()]


@app.command(
    epilog="Examples:\n\n  ./run bench\n\n  ./run bench --modes two-phase --runs 3 --skip-latency | jq .rate\n\n"
    "  ./run bench --modes two-phase --runs 3 --skip-latency --workloads uniform,wide,many-tables",
)
def bench(
    messages: Annotated[
        int, Option(min=100, help="Size of the backlog that is drained; fewer where they are longer.")
    ] = 1_000_000,
    modes: Modes = "at-least-once,two-phase,ledger",
    seconds: Seconds = 60,
    rate: Rate = 1000,
    warm_up: WarmUp = 10,
    rehearsal: Rehearsal = REHEARSAL,
    runs: Runs = 1,
    skip_latency: Annotated[bool, Option("--skip-latency", help="Drain only.")] = False,
    workloads: Annotated[
        str,
        Option(
            "--workloads",
            "--workload",
            help="uniform; hot: few rows changed again and again; wide: 100 columns; many-tables: 100. With commas.",
        ),
    ] = "uniform",
    stack: Stack = "bench",
) -> None:
    """Drain a backlog in each mode, then hold a steady rate; with the ceiling of this machine's Postgres beside it.

    A JSON line for each measurement on stdout, also appended to var/bench/results.jsonl; tables on stderr. The local
    servers are its own, and what they hold is kept for the next time. Ends with status 1 when a table came out wrong.
    """
    from tools.bench import compared
    from tools.bench.comparison import Comparison
    from tools.peers import systems
    from tools.testbed.workload import Kind

    comparison = Comparison(
        systems=[
            systems.SYSTEMS[systems.CEILING],
            *(systems.LANES[mode] for mode in words("--modes", modes, systems.LANES)),
        ],
        measures=[compared.DRAIN] if skip_latency else compared.MEASURES,
        messages=[messages],
        workloads=[Kind(kind) for kind in words("--workloads", workloads, list(Kind))],
        rates=[rate],
        seconds=seconds,
        warm_up=warm_up,
        rehearsal=rehearsal,
    )
    measure(comparison.measure(runs), stack, runs)


@app.command(
    epilog="Examples:\n\n  ./run bench-peers --report docs/BENCHMARKS.md\n\n"
    "  ./run bench-peers --measures latency --rates 100,1000,10000 --report docs/BENCHMARKS.md\n\n"
    "  ./run bench-peers --measures drain,latency --messages 250000 --workloads uniform --round-trip 0.1,1,2.5,10\n\n"
    "  ./run bench-peers --systems surelane,flink-table --messages 200000 --runs 1 | jq .rate",
)
def bench_peers(
    messages: Annotated[str, Option(help="Messages of each backlog. With commas.")] = "1000000,2000000",
    runs: Annotated[int, Option(min=1, help="How often all of it is measured; medians are compared.")] = 3,
    systems: Annotated[
        str,
        Option(
            help="surelane, surelane-ledger, surelane-at-least-once, flink-table, flink-xa, seatunnel-xa, "
            "debezium-jdbc, replication, ceiling: which, with commas."
        ),
    ] = "surelane,flink-table,flink-xa,debezium-jdbc,replication,ceiling",
    measures: Annotated[str, Option(help="drain: a backlog; latency: at steady rates. With commas.")] = "drain",
    workloads: Annotated[
        str, Option(help="uniform; hot: few rows changed again and again. With commas.")
    ] = "uniform,hot",
    rates: Annotated[str, Option(help="Messages a second while latency is measured. With commas.")] = "1000",
    seconds: Seconds = 30,
    warm_up: WarmUp = 10,
    rehearsal: Rehearsal = REHEARSAL,
    round_trip: Annotated[
        str,
        Option(
            help="Milliseconds between each system and Postgres, by a proxy: everything once for each. With commas."
        ),
    ] = "",
    attempts: Annotated[
        int, Option(min=1, help="How often what others disturbed is measured; the quietest counts.")
    ] = 3,
    report: Annotated[
        Path | None, Option(help="Write sections of this Markdown file, and benchmarks.svg beside it.")
    ] = None,
    stack: Stack = "bench",
) -> None:
    """Let Surelane and other systems drain the same topic into the same tables, in one run, and compare them.

    A JSON line for each measurement on stdout, also appended to var/bench/results.jsonl; tables with ratios and the
    project's goals on stderr. Each table is compared with what it is to be; status 1 when one is wrong or a system
    failed. What the others need is fetched once (about 230 MB), pinned by hash; Java is all that they ask for.
    """
    from tools.bench.compared import MEASURES
    from tools.bench.comparison import Comparison
    from tools.peers.systems import SYSTEMS
    from tools.testbed.workload import Kind

    comparison = Comparison(
        systems=[SYSTEMS[name] for name in words("--systems", systems, SYSTEMS)],
        measures=words("--measures", measures, MEASURES),
        messages=numbers("--messages", messages),
        workloads=[Kind(kind) for kind in words("--workloads", workloads, [Kind.UNIFORM, Kind.HOT])],
        rates=numbers("--rates", rates),
        seconds=seconds,
        warm_up=warm_up,
        rehearsal=rehearsal,
        round_trips=milliseconds("--round-trip", round_trip),
    )
    measure(comparison.measure(runs), stack, runs, report, attempts)


@app.command(
    epilog="Examples:\n\n  ./run bench-costs --report docs/COSTS.md\n\n"
    "  ./run bench-costs --features --runs 3 --report docs/COSTS.md\n\n"
    "  ./run bench-costs --axes columns --scale 0.1",
)
def bench_costs(
    axes: Annotated[
        str, Option(help="messages, tables, columns, whole-columns, row-bytes, epoch-messages: which, with commas.")
    ] = "messages,tables,columns,whole-columns,row-bytes,epoch-messages",
    scale: Annotated[float, Option(min=0.0001, max=1.0, help="Everything smaller by this factor, epochs too.")] = 1.0,
    runs: Runs = 1,
    features: Annotated[
        bool, Option("--features", help="Measure what each feature costs (guard, archive, modes, ...), instead.")
    ] = False,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Drain backlogs that differ in one thing: does what a message costs stay the same?

    By number of messages, tables, columns, bytes of a row, and messages of an epoch: CPU a message and a megabyte, peak
    memory, rate. A JSON line for each row on stdout, also appended to var/bench/results.jsonl; tables and a verdict on
    stderr. A row that fails says why, and the rest goes on. Ends with status 1 when one failed or its table is wrong.
    """
    from tools.bench.axes import NAMES
    from tools.bench.costs import of_costs
    from tools.bench.features import of_features

    chosen = words("--axes", axes, NAMES)
    measure(of_features(scale) if features else of_costs(chosen, scale), stack, runs, report)


@app.command(epilog="Example:\n\n  ./run bench-start --report docs/COSTS.md")
def bench_start(
    modes: Modes = "two-phase,ledger", runs: Runs = 5, report: Report = None, stack: Stack = "bench"
) -> None:
    """Start a lane on a short backlog, and see when each part of the start is done and the first rows are visible.

    A JSON line for each start on stdout, also appended to var/bench/results.jsonl; medians and the goal on stderr.
    Ends with status 1 when a table is wrong, something is left prepared, or the lane failed.
    """
    from tools.bench.start import of_starts
    from tools.peers.lane import MODES

    measure(of_starts(words("--modes", modes, MODES)), stack, runs, report)


@app.command(epilog="Example:\n\n  ./run bench-restart --report docs/COSTS.md")
def bench_restart(
    rate: Rate = 1000,
    before: Annotated[int, Option(min=1, help="Seconds of load before the kill.")] = 30,
    after: After = 40,
    runs: Runs = 3,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Kill a lane under a steady load (SIGKILL, all processes), start it again at once, and see when it is back.

    A JSON line for each kill on stdout, also appended to var/bench/results.jsonl; medians and goals on stderr. Ends
    with status 1 when a table is wrong, something is left prepared, or the lane failed.
    """
    from tools.bench.restart import Load, of_restarts

    measure(of_restarts(Load(rate=rate, before=before, after=after)), stack, runs, report)


@app.command(epilog="Example:\n\n  ./run bench-recovery --report docs/COSTS.md")
def bench_recovery(
    rates: Annotated[str, Option(help="Messages a second, with commas between.")] = "1000,5000",
    triggers: Annotated[
        str, Option(help="Values of epoch.trigger, with commas between.")
    ] = "0 seconds,2 seconds,10 seconds",
    before: Annotated[int, Option(min=2, help="Seconds of load before the kill.")] = 40,
    after: After = 20,
    runs: Runs = 1,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Kill lanes under a steady load, with epochs that gather for a while, and see what each costs and loses.

    A JSON line for each kill on stdout, also appended to var/bench/results.jsonl. Ends with status 1 when a table is
    wrong, something is left prepared, or a lane failed.
    """
    from tools.bench.restart import Load, of_recovery

    loads = [
        Load(rate=rate, before=before, after=after, trigger=trigger)
        for rate in numbers("--rates", rates)
        for trigger in _split(triggers)
    ]
    measure(of_recovery(loads), stack, runs, report)


@app.command(epilog="Example:\n\n  ./run bench-burst --report docs/COSTS.md")
def bench_burst(
    size: Annotated[int, Option(min=1, help="Messages of a burst.")] = 5000,
    bursts: Annotated[int, Option(min=1, help="How many are measured.")] = 20,
    runs: Runs = 1,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Send bursts to an idle lane, and see how long after its checkpoint entry the last epoch becomes visible.

    A JSON line for each run on stdout, also appended to var/bench/results.jsonl. Ends with status 1 when the table is
    wrong or the lane failed.
    """
    from tools.bench.burst import of_bursts

    measure(of_bursts(size, bursts), stack, runs, report)


@app.command(epilog="Example:\n\n  ./run bench-soak --minutes 60 --rate 1000 --report docs/COSTS.md")
def bench_soak(
    minutes: Annotated[float, Option(min=0.1, help="How long the load is held.")] = 60.0,
    rate: Rate = 1000,
    every: Annotated[float, Option(min=1, help="Seconds between two samples.")] = 10.0,
    query: Annotated[bool, Option("--query", help="A query that counts changes by window and key.")] = False,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Hold a steady load for long, and look again and again what the lane, or a query, holds.

    Memory, threads and open files of its processes, its checkpoint, its tables in the target, how late it is: a JSON
    line for each sample on stdout, also appended to var/bench/results.jsonl; then whether it grows, and whether the
    table is right. With `--report`, a picture beside the page. Ends with status 1 when the table is wrong or the lane
    failed.
    """
    from tools.bench.soak import Load, of_soak

    measure(of_soak(Load(minutes=minutes, rate=rate, every=every, query=query)), stack, 1, report)


@app.command(epilog="Example:\n\n  ./run bench-windows --runs 3 --report docs/COSTS.md")
def bench_windows(
    messages: Annotated[int, Option(min=1000, help="Messages of JSON.")] = 1_000_000,
    runs: Runs = 1,
    report: Report = None,
    stack: Stack = "bench",
) -> None:
    """Count messages by minute and key, as a query and in Flink SQL, both with RocksDB.

    A JSON line for each system and run on stdout, also appended to var/bench/results.jsonl. Ends with status 1 when a
    table is wrong or a system failed.
    """
    from tools.bench.windows import of_windows

    measure(of_windows(messages), stack, runs, report)
