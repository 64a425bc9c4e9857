"""How fast a lane works off a backlog, seen from another connection."""

import time

from tools.bench import lane
from tools.bench.backlog import Backlog
from tools.bench.epochs import mean_steps
from tools.bench.lane import Lane, LaneFailed
from tools.bench.machine import Snapshot
from tools.bench.servers import LEDGER_SCHEMA, Cursor, Servers
from tools.bench.workload import SENTINEL

#: seconds between two looks at the table
LOOK_SECONDS = 0.02
#: seconds until a lane has to have brought everything
LIMIT_SECONDS = 1800.0
#: epochs whose steps tell little: Spark compiles, the JVM warms up
WARM_UP_EPOCHS = 3

RUNNING = f"select exists (select from {LEDGER_SCHEMA}.lane_state where state = 'running')"
_ANY = "select exists (select from {table})"
#: the row of the last message
_LAST = f"select exists (select from {{table}} where id = {SENTINEL})"


def measure(servers: Servers, backlog: Backlog, mode: str) -> dict[str, object]:
    """Messages a second and what they cost, as the fields of a result."""
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
    """Of the messages that came after the first look had found some; None when there are none."""
    return round(messages / seconds) if messages > 0 else None


def _wait(cursor: Cursor, question: str, drained: Lane) -> float:
    """Ask until the answer is yes; when that was, seconds since 1970."""
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
