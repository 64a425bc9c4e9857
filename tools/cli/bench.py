"""`./run bench`: measures Surelane on this machine, also beside other systems."""

import math
import shlex
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from typer import Option

from app.errors import ConfigInvalid

app = typer.Typer(add_completion=False)
#: workloads that every system has the table of
_FOR_ALL = ("uniform", "hot")
T = TypeVar("T")
N = TypeVar("N", int, float)


def words(option: str, text: str, known: Collection[str]) -> list[str]:
    """Those between commas; raises ConfigInvalid for one that is not in `known`."""
    found = listed(option, text, str, f"known: {', '.join(known)}")
    if strangers := [word for word in found if word not in known]:
        raise ConfigInvalid(f"{option}: {', '.join(strangers)} is unknown", hint=f"known: {', '.join(known)}")
    return found


def listed(option: str, text: str, kind: Callable[[str], T], hint: str) -> list[T]:
    """What is between commas, each once; raises ConfigInvalid if there is nothing, or `kind` raises ValueError."""
    try:
        found = list(dict.fromkeys(kind(word.strip()) for word in text.split(",") if word.strip()))
    except ValueError:
        found = []
    if not found:
        raise ConfigInvalid(f"{option}: {text!r} is no such list", hint=hint)
    return found


def positive(text: str) -> int:
    """A number above 0; raises ValueError."""
    return _above(int(text))


def milliseconds(text: str) -> float:
    """A finite number above 0; raises ValueError."""
    return _above(float(text))


def _above(number: N) -> N:
    if not 0 < number < math.inf:
        raise ValueError(number)
    return number


@app.command(
    epilog="Examples:\n\n  ./run bench\n\n  ./run bench --messages 1000000 --runs 3 | jq .rate\n\n"
    "  ./run bench --systems surelane,flink-table,flink-xa,debezium-jdbc,replication,ceiling --runs 3\n\n"
    "  ./run bench --measures drain,latency --systems surelane,debezium-jdbc --round-trips 0.1,1,2.5,10\n\n"
    "  ./run bench --measures start,kill --systems surelane,surelane-ledger --runs 5\n\n"
    "  ./run bench --measures soak --seconds 3600 --report docs/BENCHMARKS.md"
)
def bench(
    measures: Annotated[
        str,
        Option(
            help="drain: a backlog; latency: at steady rates; start: its parts; kill: SIGKILL under load; soak, "
            "soak-query: growth under a long load, of a lane or a query; costs: of a message, by axes; features: what "
            "each costs; windows: a windowed count beside Flink's."
        ),
    ] = "drain",
    systems: Annotated[
        str,
        Option(
            help="Of drain, latency, start, kill, soak: surelane, surelane-ledger, surelane-at-least-once, "
            "flink-table, flink-xa, seatunnel-xa, debezium-jdbc, replication, ceiling (Postgres alone)."
        ),
    ] = "surelane,ceiling",
    workloads: Annotated[
        str,
        Option(
            help="uniform; hot: few rows changed again and again; of lanes also wide: 100 columns, many-tables: 100."
        ),
    ] = "uniform",
    messages: Annotated[
        str, Option(help="Of drain, windows: messages of a backlog; fewer where they are longer.")
    ] = "1000000",
    rates: Annotated[str, Option(help="Of latency, kill, soak: messages a second.")] = "1000",
    seconds: Annotated[int, Option(min=1, help="How long a rate is held; before a kill, and after it.")] = 30,
    triggers: Annotated[str, Option(help="Of kill: values of epoch.trigger.")] = "0 seconds",
    axes: Annotated[
        str, Option(help="Of costs: messages, tables, columns, whole-columns, row-bytes, epoch-messages.")
    ] = "messages,tables,columns,whole-columns,row-bytes,epoch-messages",
    scale: Annotated[float, Option(min=0.0001, max=1.0, help="Of costs, features: all sizes, epochs too.")] = 1.0,
    round_trips: Annotated[str, Option(help="Of drain, latency: milliseconds to Postgres, by a proxy.")] = "",
    warm_up: Annotated[int, Option(min=1, help="Seconds at a rate before any latency counts.")] = 10,
    rehearsal: Annotated[
        int, Option(min=0, help="Seconds of each system before any latency; one start, one kill. 0: none.")
    ] = 30,
    runs: Annotated[
        int, Option(min=1, help="How often all of it is measured; medians count, and ratios of the same run.")
    ] = 1,
    report: Annotated[Path | None, Option(help="Write the result into its own sections of this Markdown file.")] = None,
    stack: Annotated[str, Option(help="Name of its own stack of local servers.")] = "bench",
) -> None:
    """Measure Surelane on this machine, beside Postgres alone or other systems, in one run; options take commas.

    A JSON line for each measurement on stdout, also appended to var/bench/results.jsonl; tables, ratios and the
    project's goals on stderr. The local servers are its own, and what they hold is kept for the next time. Each table
    is compared with what it is to be: status 1 when one is wrong, or a system failed. What other systems need is
    fetched once (about 230 MB), pinned by hash; Java is all that they ask for.
    """
    from app.config import values
    from tools.bench.axes import AXES
    from tools.bench.measures import MEASURES, run
    from tools.bench.plan import Plan
    from tools.peers.systems import CEILING, SYSTEMS
    from tools.testbed.workload import Kind

    chosen = [SYSTEMS[name] for name in words("--systems", systems, SYSTEMS)]
    for_all = all(one.is_lane or one.name == CEILING for one in chosen)
    plan = Plan(
        systems=chosen,
        workloads=[Kind(kind) for kind in words("--workloads", workloads, list(Kind) if for_all else _FOR_ALL)],
        messages=listed("--messages", messages, positive, "1000000, or 1000000,2000000"),
        rates=listed("--rates", rates, positive, "1000, or 100,1000"),
        seconds=seconds,
        warm_up=warm_up,
        rehearsal=rehearsal,
        round_trips=listed("--round-trips", round_trips, milliseconds, "0.1,1,2.5,10") if round_trips else [],
        triggers=listed("--triggers", triggers, values.interval, "0 seconds,10 seconds"),
        axes=words("--axes", axes, AXES),
        scale=scale,
        runs=runs,
    )
    named = words("--measures", measures, MEASURES)
    command = shlex.join(["./run", *sys.argv[1:]])
    raise typer.Exit(0 if run(plan, named, stack, report, command) else 1)
