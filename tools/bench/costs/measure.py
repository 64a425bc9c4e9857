"""One drain: CPU cost of a message once the lane is warm, peak memory, and whether the table is right.

    start ... running ... a quarter of the messages visible ........ all visible
                                        |----- CPU, rate ---------------|

Before that, Spark compiles and the JVM warms up; the rest gives the cost of one more message.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from tools.bench import lane
from tools.bench.backlog import Backlog
from tools.bench.costs.axes import Case
from tools.bench.drain import LIMIT_SECONDS, LOOK_SECONDS, RUNNING
from tools.bench.lane import Lane, LaneFailed
from tools.bench.latency import is_true, until, visible
from tools.bench.machine import Snapshot
from tools.bench.results import cpu_used
from tools.bench.servers import Cursor, Servers

MODE = "two-phase"
#: share of the messages that is not counted
WARM_SHARE = 0.25


def measure(
    servers: Servers,
    backlog: Backlog,
    case: Case,
    mode: str = MODE,
    *,
    settings: Mapping[str, object] | None = None,
    python_path: Path | None = None,
) -> dict[str, object]:
    """Measure CPU a message and a gigabyte; returns the fields of a result. `settings` override the lane's."""
    servers.empty_database(backlog.tables, with_ledger=True)
    overrides = {"epoch": {"max_messages": case.epoch, "max_bytes": case.epoch_bytes}, **(settings or {})}
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        lane.running(
            servers, mode, backlog.topic, until_caught_up=True, settings=overrides, python_path=python_path
        ) as held,
    ):
        until(lambda: is_true(cursor, RUNNING), held, "the lane to run", LIMIT_SECONDS)
        started = Snapshot.of({**servers.cpu(), **held.cpu()})
        before = _wait(cursor, backlog, held, WARM_SHARE * backlog.messages)
        warm = Snapshot.of({**servers.cpu(), **held.cpu()})
        _wait(cursor, backlog, held, backlog.messages)
        end, peaks = Snapshot.of({**servers.cpu(), **held.cpu()}), held.peaks()
        status = held.wait()
    epochs, prepared = held.epochs(), servers.prepared()
    right = servers.found(backlog.tables) == backlog.expected
    left = backlog.messages - before
    used = end.since(warm)
    return {
        "counted_messages": left,
        "seconds": round(end.at - warm.at, 3),
        "rate": round(left / (end.at - warm.at)) if left else None,
        **used,
        **costs(used, left, backlog),
        "cpu_seconds_after_start": end.since(started)["cpu_seconds"],
        "peak_megabytes": peaks,
        "epochs": len(epochs),
        "prepared_left": prepared,
        "exit_status": status,
        "correct": right and not prepared and not status,
    }


def costs(used: Mapping[str, object], messages: int, backlog: Backlog) -> dict[str, float | None]:
    """CPU of all processes for a message and a gigabyte; None if `messages` is 0."""
    a_message = sum(cpu_used({**used}).values()) / messages if messages else None
    a_byte = a_message * backlog.messages / backlog.value_bytes if a_message else None
    return {
        "cpu_microseconds_per_message": round(a_message * 1e6, 3) if a_message else None,
        "cpu_seconds_per_gigabyte": round(a_byte * 1e9, 3) if a_byte else None,
    }


def _wait(cursor: Cursor, backlog: Backlog, held: Lane, enough: float) -> int:
    """Poll until at least `enough` messages are visible; returns their number.

    Raises LaneFailed if the lane ends first, or after LIMIT_SECONDS.
    """
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        ended = held.process.poll() is not None
        found = visible(cursor, backlog.topic)
        if found >= enough:
            return found
        if ended:
            raise LaneFailed(f"the lane ended before everything was visible:\n{held.tail()}")
        if time.monotonic() > deadline:
            raise LaneFailed(f"not everything was visible after {LIMIT_SECONDS:.0f} s:\n{held.tail()}")
        held.cpu()  # finds the pids of its parts while they live
        time.sleep(LOOK_SECONDS)
