"""Measures how fast a lane drains a backlog, observed on another connection."""

import time

from tools.bench import lane
from tools.bench.backlog import Backlog
from tools.bench.epochs import mean_steps
from tools.bench.lane import Lane, LaneFailed
from tools.bench.machine import Snapshot
from tools.bench.servers import LEDGER_SCHEMA, Cursor, Servers
from tools.bench.workload import SENTINEL

#: seconds between two polls of the table
LOOK_SECONDS = 0.02
#: seconds until the lane must have applied everything
LIMIT_SECONDS = 1800.0
#: epochs that the means leave out, while Spark compiles and the JVM warms up
WARM_UP_EPOCHS = 3

RUNNING = f"select exists (select from {LEDGER_SCHEMA}.lane_state where state = 'running')"
_ANY = "select exists (select from {table})"
#: the row of the last message
_LAST = f"select exists (select from {{table}} where id = {SENTINEL})"


def measure(servers: Servers, backlog: Backlog, mode: str) -> dict[str, object]:
    """Measure messages a second and their CPU cost; returns the fields of a result."""
    servers.empty_database(backlog.tables, with_ledger=True)
    table = backlog.tables[0].name
    start = Snapshot.of(servers.cpu())
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        lane.running(servers, mode, backlog.topic, until_caught_up=True) as drained,
    ):
        _wait(cursor, RUNNING, drained)
        started = Snapshot.of({**servers.cpu(), **drained.cpu()})
        first = _wait(cursor, _ANY.format(table=table), drained)
        last = _wait(cursor, _LAST.format(table=table), drained)
        end, peaks = Snapshot.of({**servers.cpu(), **drained.cpu()}), drained.peaks()
        status = drained.wait()
    if status:
        raise LaneFailed(f"the lane ended with status {status}:\n{drained.tail()}")
    epochs = drained.epochs()
    messages = backlog.messages
    return {
        "seconds": round(last - first, 3),
        "rate": _rate(messages - epochs[0].messages, last - first),
        "rate_from_start": round(messages / (last - drained.started_at)),
        "startup_seconds": round(first - drained.started_at, 2),
        "total_seconds": round(last - drained.started_at, 2),
        **end.since(start),
        "cpu_seconds_after_start": end.since(started)["cpu_seconds"],
        "peak_megabytes": peaks,
        "epochs": len(epochs),
        "step_milliseconds": mean_steps(epochs[WARM_UP_EPOCHS:]),
        "correct": servers.found(backlog.tables) == backlog.expected,
    }


def _rate(messages: int, seconds: float) -> int | None:
    """Messages a second; None if no messages were left after the first epoch."""
    return round(messages / seconds) if messages > 0 else None


def _wait(cursor: Cursor, question: str, drained: Lane) -> float:
    """Poll `question` until it is true; returns that moment, in seconds since 1970.

    Raises LaneFailed if the lane ends first, or after LIMIT_SECONDS.
    """
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        ended = drained.process.poll() is not None
        cursor.execute(question)
        if cursor.fetchone() == (True,):
            return time.time()
        if ended:
            raise LaneFailed(f"the lane ended before everything was visible:\n{drained.tail()}")
        if time.monotonic() > deadline:
            raise LaneFailed(f"not everything was visible after {LIMIT_SECONDS:.0f} s:\n{drained.tail()}")
        time.sleep(LOOK_SECONDS)
