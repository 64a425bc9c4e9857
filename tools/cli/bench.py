"""`./run bench`: measures Surelane on this machine, also beside other systems."""

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
N = TypeVar("N", int, float)


def words(option: str, text: str, known: Collection[str]) -> list[str]:
    """Those between commas; raises ConfigInvalid for one that is not in `known`."""
    found = _split(text)
    if strangers := [word for word in found if word not in known]:
        raise ConfigInvalid(f"{option}: {', '.join(strangers)} is unknown", hint=f"known: {', '.join(known)}")
    return found


def numbers(option: str, text: str, kind: Callable[[str], N], example: str) -> list[N]:
    """Positive numbers between commas; raises ConfigInvalid."""
    try:
        found = [kind(word) for word in _split(text)]
    except ValueError:
        found = []
    if not all(one > 0 for one in found) or len(found) < len(_split(text)):
        raise ConfigInvalid(f"{option}: {text!r} are no such numbers", hint=example)
    return found


def _split(text: str) -> list[str]:
    """Blank entries are dropped."""
    return [word.strip() for word in text.split(",") if word.strip()]


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
            help="surelane, surelane-ledger, surelane-at-least-once, flink-table, flink-xa, seatunnel-xa, "
            "debezium-jdbc, replication, ceiling (Postgres alone)."
        ),
    ] = "surelane,ceiling",
    workloads: Annotated[
        str,
        Option(
            help="uniform; hot: few rows changed again and again; of lanes also wide: 100 columns, many-tables: 100."
        ),
    ] = "uniform",
    messages: Annotated[str, Option(help="Messages of each backlog; fewer where they are longer.")] = "1000000",
    rates: Annotated[str, Option(help="Messages a second of latency, kill, soak.")] = "1000",
    seconds: Annotated[int, Option(min=1, help="How long a rate is held: what counts, before and after a kill.")] = 30,
    triggers: Annotated[str, Option(help="Values of epoch.trigger of lanes that are killed.")] = "0 seconds",
    axes: Annotated[
        str, Option(help="Of costs: messages, tables, columns, whole-columns, row-bytes, epoch-messages.")
    ] = "messages,tables,columns,whole-columns,row-bytes,epoch-messages",
    scale: Annotated[float, Option(min=0.0001, max=1.0, help="Of costs, features: all sizes, epochs too.")] = 1.0,
    round_trips: Annotated[
        str, Option(help="Milliseconds between each system and Postgres, by a proxy: drain, latency.")
    ] = "",
    warm_up: Annotated[int, Option(min=1, help="Seconds at a rate before any latency counts.")] = 10,
    rehearsal: Annotated[
        int, Option(min=0, help="Seconds of each system before any latency; 0: nothing is rehearsed.")
    ] = 30,
    runs: Annotated[int, Option(min=1, help="How often all of it is measured; medians count.")] = 1,
    report: Annotated[Path | None, Option(help="Write the result into its own sections of this Markdown file.")] = None,
    stack: Annotated[str, Option(help="Name of its own stack of local servers.")] = "bench",
) -> None:
    """Measure Surelane on this machine, beside Postgres alone or other systems, in one run; options take commas.

    A JSON line for each measurement on stdout, also appended to var/bench/results.jsonl; tables, ratios and the
    project's goals on stderr. The local servers are its own, and what they hold is kept for the next time. Each table
    is compared with what it is to be: status 1 when one is wrong, or a system failed. What other systems need is
    fetched once (about 230 MB), pinned by hash; Java is all that they ask for.
    """
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
        messages=numbers("--messages", messages, int, "1000000, or 1000000,2000000"),
        rates=numbers("--rates", rates, int, "1000, or 100,1000"),
        seconds=seconds,
        warm_up=warm_up,
        rehearsal=rehearsal,
        round_trips=numbers("--round-trips", round_trips, float, "0.1,1,2.5,10"),
        triggers=_split(triggers),
        axes=words("--axes", axes, AXES),
        scale=scale,
    )
    named = words("--measures", measures, MEASURES)
    command = shlex.join(["./run", *sys.argv[1:]])
    raise typer.Exit(0 if run(plan, named, stack, runs, report, command) else 1)
