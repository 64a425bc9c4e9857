"""Measures how fast a system drains a backlog, and the CPU cost, observed on another connection.

    process start ........ first poll that finds rows ................ first poll that finds the last message's row
         |----------------- startup --------|-- `rate`: the messages that were not visible at the first poll --|
         |----------------- `rate_from_start`: all messages ----------------------------------------------------|

Each row has its change's ordinal in `updated_at`, so the first poll gives the number of messages that were visible
already. CPU is measured from process start, and separately from the first poll.
"""

import time

from tools.bench.backlog import Backlog
from tools.bench.drain import LIMIT_SECONDS
from tools.bench.machine import Snapshot
from tools.bench.peers import look, system
from tools.bench.peers.system import System
from tools.bench.peers.target import TABLE
from tools.bench.servers import Cursor, Servers
from tools.bench.tables import BEGIN_MICROS
from tools.bench.workload import SENTINEL

LOOK_SECONDS = 0.02
_SEEN = f"select (extract(epoch from max(updated_at)) * 1000000)::bigint from {TABLE.name}"
_LAST = f"select 1 from {TABLE.name} where id = {SENTINEL}"


def measure(servers: Servers, backlog: Backlog, measured: System) -> dict[str, object]:
    """Measure messages a second and their CPU cost; returns the fields of a result."""
    servers.empty_database(backlog.tables, with_ledger=measured is System.SURELANE)
    start = Snapshot.of(servers.cpu())
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        system.running(measured, servers, backlog.topic) as started,
    ):

        def wait(question: str, what: str) -> float:
            return look.until(
                lambda: look.answer(cursor, question), started, what, every=LOOK_SECONDS, seconds=LIMIT_SECONDS
            )

        seen = messages_until(int(wait(_SEEN, "the first row")))
        first, begun = time.time(), Snapshot.of({**servers.cpu(), **started.cpu()})
        wait(_LAST, "the row of the last message")
        last = time.time()
        end = Snapshot.of({**servers.cpu(), **started.cpu()})
        right = look.is_right(servers, backlog.tables, backlog.expected)
        began = started.started_at
    return {
        "seconds": round(last - first, 3),
        "messages_at_first_look": seen,
        "rate": round((backlog.messages - seen) / (last - first)) if backlog.messages > seen else None,
        "rate_from_start": round(backlog.messages / (last - began)),
        "startup_seconds": round(first - began, 2),
        "total_seconds": round(last - began, 2),
        **end.since(start),
        "cpu_seconds_after_first_look": end.since(begun)["cpu_seconds"],
        "prepared_left": _prepared(servers),
        "correct": right,
    }


def messages_until(micros: int) -> int:
    """Number of messages up to the one with this `updated_at` (`tools.bench.tables.micros`)."""
    return (micros - BEGIN_MICROS) // 1000 + 1


def _prepared(servers: Servers) -> int:
    """Number of transactions that the system has left prepared; not an error after a stop in the middle of one."""
    with servers.connect() as connection, connection.cursor() as cursor:
        return _count(cursor)


def _count(cursor: Cursor) -> int:
    return int(look.answer(cursor, "select count(*) from pg_prepared_xacts") or 0)
