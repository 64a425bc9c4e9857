"""Measures how fast a system drains a backlog, and the CPU cost, observed on another connection.

    process start ........ first poll that finds rows ................ first poll that finds the last message's row
         |----------------- startup --------|-- `rate`: the messages that were not visible at the first poll --|
         |----------------- `rate_from_start`: all messages ----------------------------------------------------|

Each row has its change's ordinal in `updated_at`, so the first poll gives the number of messages that were visible
already. CPU is measured from process start, and separately from the first poll. With `warm`, what counts as the first
poll is the first that finds that share of the messages, by a lane's ledger: the cost of one more message, with start
and warm-up left out.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tools.bench import ceiling
from tools.bench.plan import Plan
from tools.bench.results import Task, say
from tools.bench.trial import Trial, trial
from tools.peers.lane import END, Epoch, mean_steps
from tools.peers.systems import System
from tools.testbed import backlog
from tools.testbed.backlog import Backlog
from tools.testbed.distance import at_distance
from tools.testbed.servers import Servers
from tools.testbed.tables import BEGIN_MICROS, TABLE
from tools.testbed.workload import Kind, as_many_bytes

#: seconds between two polls of the table
LOOK_SECONDS = 0.02
#: epochs that the means leave out, while Spark compiles and the JVM warms up
WARM_UP_EPOCHS = 3
_SEEN = f"select (extract(epoch from max(updated_at)) * 1000000)::bigint from {TABLE.name}"


def tasks(plan: Plan, up: Servers) -> Iterator[Task]:
    filled = [_prepared(plan, up, kind, count) for kind in plan.workloads for count in plan.messages]
    for one in filled:
        say(f"reading {one.topic} through, so that the broker is warm")
        backlog.read_through(up, one)
    for run, round_trip, one, system in plan.passes(filled):
        yield _task(up, one, system, round_trip, run)


def _prepared(plan: Plan, up: Servers, kind: Kind, messages: int) -> Backlog:
    messages = as_many_bytes(kind.shape, messages)
    say(f"{messages:,} messages, workload {kind}: making them, unless they are there")
    made = backlog.prepare(up, kind.shape, messages)
    for one in plan.systems:
        one.prepare(up, made)
    return made


def _task(up: Servers, filled: Backlog, system: System, round_trip: float | None, run: int) -> Task:
    of_backlog = {"workload": filled.shape.name, "messages": filled.messages, "value_bytes": filled.value_bytes}
    what = {"system": system.name, **of_backlog, "round_trip": round_trip, "run": run}
    if system.start is None:
        return Task(what, partial(ceiling.measure, up, filled))
    return Task(what, partial(at_distance, up, round_trip, lambda there: measure(there, filled, system)))


def measure(servers: Servers, filled: Backlog, system: System, warm: float | None = None) -> dict[str, Any]:
    """Measure messages a second and their CPU cost; returns the fields of a result."""
    with trial(servers, system, filled.topic, filled.shape.ddl, LOOK_SECONDS) as one:
        seen = int(one.until(_progress(one, filled, warm), "the first rows"))
        first, begun = time.time(), one.snapshot()
        one.until_last(filled.tables[0].name)
        last = time.time()
        end, peaks = one.snapshot(), one.held.peaks()
        ended = one.end(one.reaches(filled.tables, filled.expected))
    begin, left = one.held.started_at, filled.messages - seen
    return {
        "value_bytes": filled.value_bytes,
        "seconds": round(last - first, 3),
        "messages_at_first_look": seen,
        "rate": round(left / (last - first)) if left > 0 else None,
        "rate_from_start": round(filled.messages / (last - begin)),
        "startup_seconds": round(first - begin, 2),
        "total_seconds": round(last - begin, 2),
        **end.since(one.start),
        "cpu_seconds_after_first_look": end.since(begun)["cpu_seconds"],
        "peak_megabytes": dict(peaks),
        **(_of_epochs(one.lane.epochs()) if system.is_lane else {}),
        **ended,
    }


def messages_until(micros: int) -> int:
    """Number of messages up to the one with this `updated_at` (`tools.testbed.tables.micros`)."""
    return (micros - BEGIN_MICROS) // 1000 + 1


def _progress(one: Trial, filled: Backlog, warm: float | None) -> Callable[[], int | None]:
    """Number of visible messages; None: too few to begin."""
    least = max(1.0, (warm or 0.0) * filled.messages)

    def by_table() -> int | None:
        found = one.answer(_SEEN)
        return messages_until(int(found)) if found is not None else None

    def by_position() -> int | None:
        found = int(one.answer(END, filled.topic) or 0)
        return min(found, filled.messages) if found >= least else None

    return by_table if warm is None and filled.tables == (TABLE,) else by_position


def _of_epochs(epochs: Sequence[Epoch]) -> dict[str, object]:
    return {"epochs": len(epochs), "step_milliseconds": mean_steps(epochs[WARM_UP_EPOCHS:])}
