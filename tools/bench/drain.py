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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tools.bench.results import cpu_used
from tools.bench.trial import Trial, trial
from tools.peers.lane import END, Epoch, mean_steps
from tools.peers.systems import System
from tools.testbed.backlog import Backlog
from tools.testbed.servers import Servers
from tools.testbed.tables import BEGIN_MICROS, TABLE

#: seconds between two polls of the table
LOOK_SECONDS = 0.02
#: epochs that the means leave out, while Spark compiles and the JVM warms up
WARM_UP_EPOCHS = 3
_SEEN = f"select (extract(epoch from max(updated_at)) * 1000000)::bigint from {TABLE.name}"


def measure(servers: Servers, backlog: Backlog, system: System, warm: float | None = None) -> dict[str, Any]:
    """Measure messages a second and their CPU cost; returns the fields of a result."""
    with trial(servers, system, backlog.topic, backlog.shape.ddl, LOOK_SECONDS) as one:
        seen = int(one.until(_progress(one, backlog, warm), "the first rows"))
        first, begun = time.time(), one.snapshot()
        one.until_last(backlog.tables[0].name)
        last = time.time()
        end, peaks = one.snapshot(), one.held.peaks()
        ended = one.end(one.reaches(backlog.tables, backlog.expected))
    begin, left, after = one.held.started_at, backlog.messages - seen, end.since(begun)
    return {
        "value_bytes": backlog.value_bytes,
        "seconds": round(last - first, 3),
        "messages_at_first_look": seen,
        "rate": round(left / (last - first)) if left > 0 else None,
        "rate_from_start": round(backlog.messages / (last - begin)),
        "startup_seconds": round(first - begin, 2),
        "total_seconds": round(last - begin, 2),
        **end.since(one.start),
        "cpu_seconds_after_first_look": after["cpu_seconds"],
        **costs(after, left, backlog),
        "peak_megabytes": dict(peaks),
        **(_of_epochs(one.lane.epochs()) if system.is_lane else {}),
        **ended,
    }


def costs(used: Mapping[str, Any], messages: int, backlog: Backlog) -> dict[str, float | None]:
    """CPU of all processes for a message and a gigabyte; None if `messages` is 0."""
    a_message = sum(cpu_used(used).values()) / messages if messages else None
    a_byte = a_message * backlog.messages / backlog.value_bytes if a_message else None
    return {
        "cpu_microseconds_per_message": round(a_message * 1e6, 3) if a_message else None,
        "cpu_seconds_per_gigabyte": round(a_byte * 1e9, 3) if a_byte else None,
    }


def messages_until(micros: int) -> int:
    """Number of messages up to the one with this `updated_at` (`tools.testbed.tables.micros`)."""
    return (micros - BEGIN_MICROS) // 1000 + 1


def _progress(one: Trial, backlog: Backlog, warm: float | None) -> Callable[[], int | None]:
    """Number of visible messages; None: too few to begin."""
    least = max(1.0, (warm or 0.0) * backlog.messages)

    def by_table() -> int | None:
        found = one.answer(_SEEN)
        return messages_until(int(found)) if found is not None else None

    def by_position() -> int | None:
        found = int(one.answer(END, backlog.topic) or 0)
        return min(found, backlog.messages) if found >= least else None

    return by_table if warm is None and backlog.tables == (TABLE,) else by_position


def _of_epochs(epochs: Sequence[Epoch]) -> dict[str, object]:
    return {"epochs": len(epochs), "step_milliseconds": mean_steps(epochs[WARM_UP_EPOCHS:])}
