"""`./run bench`: measure how fast a lane is on this machine."""

import shlex
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from app.errors import ConfigInvalid

app = typer.Typer(add_completion=False)

Messages = Annotated[
    int, typer.Option("--messages", min=100, help="Size of the backlog that is drained; fewer where they are longer.")
]
Modes = Annotated[str, typer.Option("--modes", help="Commit modes to drain it in, with commas.")]
Seconds = Annotated[int, typer.Option("--seconds", min=1, help="How long a rate is held for latency.")]
Rate = Annotated[int, typer.Option("--rate", min=1, help="Messages a second while latency is measured.")]
WarmUp = Annotated[int, typer.Option("--warm-up", min=1, help="Seconds at that rate before anything counts.")]
#: seconds
REHEARSAL = 30
Rehearsal = Annotated[
    int,
    typer.Option(
        "--rehearsal", min=0, help="Seconds of each system before any latency is measured, so that the broker is warm."
    ),
]
Runs = Annotated[int, typer.Option("--runs", min=1, help="How often all of it is measured.")]
SkipLatency = Annotated[bool, typer.Option("--skip-latency", help="Drain only.")]
Stack = Annotated[str, typer.Option("--stack", help="Name of its own stack of local servers.")]
Report = Annotated[
    Path | None, typer.Option("--report", help="Write the result into its own sections of this Markdown file.")
]
Workloads = Annotated[
    str,
    typer.Option(
        "--workloads",
        "--workload",
        help="uniform; hot: few rows changed again and again; wide: 100 columns; many-tables: 100. With commas.",
    ),
]


@app.command(
    epilog="Examples:\n\n  ./run bench\n\n  ./run bench --modes two-phase --runs 3 --skip-latency | jq .rate\n\n"
    "  ./run bench --modes two-phase --runs 3 --skip-latency --workloads uniform,wide,many-tables",
)
def bench(
    messages: Messages = 1_000_000,
    modes: Modes = "at-least-once,two-phase,ledger",
    seconds: Seconds = 60,
    rate: Rate = 1000,
    warm_up: WarmUp = 10,
    rehearsal: Rehearsal = REHEARSAL,
    runs: Runs = 1,
    skip_latency: SkipLatency = False,
    workloads: Workloads = "uniform",
    stack: Stack = "bench",
) -> None:
    """Drain a backlog in each mode, then hold a steady rate; with the ceiling of this machine's Postgres beside it.

    A JSON line for each measurement on stdout, also appended to var/bench/results.jsonl; tables on stderr. The local
    servers are its own, and what they hold is kept for the next time. Ends with status 1 when a table came out wrong.
    """
    from tools.bench import compared, systems
    from tools.bench.comparison import Wanted, run
    from tools.bench.workload import Kind

    chosen, kinds = words(modes), words(workloads)
    known("--modes", chosen, systems.LANES)
    known("--workloads", kinds, list(Kind))
    wanted = Wanted(
        stack=stack,
        runs=runs,
        report=None,
        command=command(),
        systems=[systems.SYSTEMS[systems.CEILING], *(systems.LANES[mode] for mode in chosen)],
        measures=[compared.DRAIN] if skip_latency else compared.MEASURES,
        messages=[messages],
        workloads=[Kind(kind) for kind in kinds],
        rates=[rate],
        seconds=seconds,
        warm_up=warm_up,
        rehearsal=rehearsal,
    )
    raise typer.Exit(0 if run(wanted) else 1)


def command() -> str:
    """The command line as the user typed it, for a report page."""
    return shlex.join(["./run", *sys.argv[1:]])


def words(text: str) -> list[str]:
    """Split at commas; blank entries are dropped."""
    return [word.strip() for word in text.split(",") if word.strip()]


def known(option: str, given: list[str], all_of_them: Collection[str]) -> None:
    """Raise ConfigInvalid if a word of `given` is not in `all_of_them`."""
    if strangers := [word for word in given if word not in all_of_them]:
        raise ConfigInvalid(f"{option}: {', '.join(strangers)} is unknown", hint=f"known: {', '.join(all_of_them)}")


def numbers(option: str, text: str) -> list[int]:
    """Positive numbers between commas; raises ConfigInvalid."""
    found = words(text)
    if not found or not all(word.isdecimal() and int(word) for word in found):
        raise ConfigInvalid(f"{option}: {text!r} is not a list of numbers", hint="1000, or 1000,2000")
    return [int(word) for word in found]


def milliseconds(option: str, text: str) -> list[float]:
    """Numbers between commas; raises ConfigInvalid."""
    try:
        found = [float(word) for word in words(text)]
    except ValueError:
        found = [-1.0]
    if any(one < 0 for one in found):
        raise ConfigInvalid(f"{option}: {text!r} are no milliseconds", hint="0.1,1,2.5,10")
    return found
