"""Polls the table on another connection: one clock for all systems."""

import time
from collections.abc import Callable, Mapping, Sequence

from tools.bench.peers.child import PeerFailed, Running
from tools.bench.servers import Cursor, Servers
from tools.bench.tables import Expected, Table

#: seconds for the rest of the last flush, after the last message's row is visible: Flink deletes after its upserts
SETTLE_SECONDS = 15.0
_SETTLE_LOOK_SECONDS = 0.25


def until(look: Callable[[], float | None], system: Running, what: str, *, every: float, seconds: float) -> float:
    """Call `look` every `every` seconds until it returns a value, and return that.

    Raises PeerFailed after `seconds`; `system.must_live` raises if the system has failed.
    """
    deadline = time.monotonic() + seconds
    while (answer := look()) is None:
        system.must_live()
        if time.monotonic() > deadline:
            raise PeerFailed(f"gave up after {seconds:.0f} s waiting for {what}:\n{system.tail()}")
        time.sleep(every)
    return answer


def answer(cursor: Cursor, question: str) -> float | None:
    """The first value of the query's first row; None without a row."""
    cursor.execute(question)
    row = cursor.fetchone()
    return row[0] if row else None


def is_right(servers: Servers, tables: Sequence[Table], expected: Mapping[str, Expected]) -> bool:
    """Whether the tables reach the expected content within SETTLE_SECONDS; the system must still run."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while servers.found(tables) != expected:
        if time.monotonic() > deadline:
            return False
        time.sleep(_SETTLE_LOOK_SECONDS)
    return True
