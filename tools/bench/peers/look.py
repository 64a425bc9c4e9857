"""Looking at the table from another connection: the one clock for all systems."""

import time
from collections.abc import Callable, Mapping, Sequence

from tools.bench.peers.child import PeerFailed, Running
from tools.bench.servers import Cursor, Servers
from tools.bench.tables import Expected, Table

#: seconds for what belongs to the last flush and is written after its last row: Flink deletes after it has upserted
SETTLE_SECONDS = 15.0
_SETTLE_LOOK_SECONDS = 0.25


def until(look: Callable[[], float | None], system: Running, what: str, *, every: float, seconds: float) -> float:
    """Look `every` so many seconds until there is an answer; gives it."""
    deadline = time.monotonic() + seconds
    while (answer := look()) is None:
        system.must_live()
        if time.monotonic() > deadline:
            raise PeerFailed(f"gave up after {seconds:.0f} s waiting for {what}:\n{system.tail()}")
        time.sleep(every)
    return answer


def answer(cursor: Cursor, question: str) -> float | None:
    """The one value that a question is answered with."""
    cursor.execute(question)
    row = cursor.fetchone()
    return row[0] if row else None


def is_right(servers: Servers, tables: Sequence[Table], expected: Mapping[str, Expected]) -> bool:
    """Whether the tables come to be as they are to be; the system must still run."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while servers.found(tables) != expected:
        if time.monotonic() > deadline:
            return False
        time.sleep(_SETTLE_LOOK_SECONDS)
    return True
