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
from collections.abc import Callable, Mapping
from typing import Any

from tools.bench.backlog import Backlog
from tools.bench.child import answer, is_right, until
from tools.bench.epochs import mean_steps
from tools.bench.lane import END, Lane
from tools.bench.machine import Snapshot
from tools.bench.results import cpu_used
from tools.bench.servers import Cursor, Servers
from tools.bench.systems import System
from tools.bench.tables import BEGIN_MICROS, TABLE
from tools.bench.workload import SENTINEL

#: seconds between two polls of the table
LOOK_SECONDS = 0.02
#: seconds until a system must have applied everything
LIMIT_SECONDS = 1800.0
#: epochs that the means leave out, while Spark compiles and the JVM warms up
WARM_UP_EPOCHS = 3
_SEEN = f"select (extract(epoch from max(updated_at)) * 1000000)::bigint from {TABLE.name}"


def measure(servers: Servers, backlog: Backlog, system: System, warm: float | None = None) -> dict[str, Any]:
    """Measure messages a second and their CPU cost; returns the fields of a result."""
    servers.empty_database(backlog.tables, with_ledger=system.is_lane)
    start = Snapshot.of(servers.cpu())
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        system.running(servers, backlog.topic) as started,
    ):
        progress = _progress(cursor, backlog, warm or 0.0, by_ledger=warm is not None)
        seen = int(until(progress, started, "the first rows", every=LOOK_SECONDS, seconds=LIMIT_SECONDS))
        first, begun = time.time(), Snapshot.of({**servers.cpu(), **started.cpu()})
        last_row = f"select 1 from {backlog.tables[0].name} where id = {SENTINEL}"
        until(lambda: answer(cursor, last_row), started, "the last message", every=LOOK_SECONDS, seconds=LIMIT_SECONDS)
        last = time.time()
        end, peaks = Snapshot.of({**servers.cpu(), **started.cpu()}), started.peaks()
        right = is_right(servers, backlog.tables, backlog.expected)
        status = started.stop()
    prepared = servers.prepared()
    left, after = backlog.messages - seen, end.since(begun)
    return {
        "seconds": round(last - first, 3),
        "messages_at_first_look": seen,
        "rate": round(left / (last - first)) if left > 0 else None,
        "rate_from_start": round(backlog.messages / (last - started.started_at)),
        "startup_seconds": round(first - started.started_at, 2),
        "total_seconds": round(last - started.started_at, 2),
        **end.since(start),
        "cpu_seconds_after_first_look": after["cpu_seconds"],
        **costs(after, left, backlog),
        "peak_megabytes": dict(peaks),
        **(_of_lane(started, status) if isinstance(started, Lane) else {}),
        "prepared_left": prepared,
        "correct": right and not (system.is_lane and (prepared or status)),
    }


def costs(used: Mapping[str, object], messages: int, backlog: Backlog) -> dict[str, float | None]:
    """CPU of all processes for a message and a gigabyte; None if `messages` is 0."""
    a_message = sum(cpu_used({**used}).values()) / messages if messages else None
    a_byte = a_message * backlog.messages / backlog.value_bytes if a_message else None
    return {
        "cpu_microseconds_per_message": round(a_message * 1e6, 3) if a_message else None,
        "cpu_seconds_per_gigabyte": round(a_byte * 1e9, 3) if a_byte else None,
    }


def messages_until(micros: int) -> int:
    """Number of messages up to the one with this `updated_at` (`tools.bench.tables.micros`)."""
    return (micros - BEGIN_MICROS) // 1000 + 1


def _progress(cursor: Cursor, backlog: Backlog, share: float, *, by_ledger: bool) -> Callable[[], int | None]:
    """Number of visible messages; None: too few to begin."""
    least = max(1.0, share * backlog.messages)

    def by_table() -> int | None:
        found = answer(cursor, _SEEN)
        return messages_until(int(found)) if found is not None else None

    def by_position() -> int | None:
        found = int(answer(cursor, END, backlog.topic) or 0)
        return min(found, backlog.messages) if found >= least else None

    return by_position if by_ledger or backlog.tables != (TABLE,) else by_table


def _of_lane(held: Lane, status: int) -> dict[str, object]:
    epochs = held.epochs()
    return {
        "epochs": len(epochs),
        "step_milliseconds": mean_steps(epochs[WARM_UP_EPOCHS:]),
        "exit_status": status,
    }
