"""One measurement of a system: an empty database, the system at work, and another connection that looks."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tools.peers import child
from tools.peers.child import Running
from tools.peers.lane import Lane
from tools.peers.systems import System
from tools.testbed.machine import Snapshot
from tools.testbed.servers import Cursor, Servers
from tools.testbed.tables import TABLE, Expected, Table
from tools.testbed.workload import SENTINEL

#: seconds until a system must have applied everything
LIMIT_SECONDS = 1800.0
#: seconds for the rest of the last flush, after the last message's row is visible: Flink deletes after its upserts
SETTLE_SECONDS = 15.0
_SETTLE_LOOK_SECONDS = 0.25


@dataclass(frozen=True)
class Trial:
    servers: Servers
    system: System
    cursor: Cursor
    held: Running
    #: before the system was started
    start: Snapshot
    #: seconds between two looks
    every: float

    @property
    def lane(self) -> Lane:
        """The system, where it is one."""
        assert isinstance(self.held, Lane), f"{self.system.name} is none"
        return self.held

    def answer(self, question: str, *values: object) -> float | None:
        """The first value of the query's first row; None without a row."""
        self.cursor.execute(question, values or None)
        row = self.cursor.fetchone()
        return row[0] if row else None

    def until(self, look: str | Callable[[], Any], what: str, seconds: float = LIMIT_SECONDS) -> Any:
        """Wait until `look`, or a query, finds something, and return that; see `child.until`."""
        asked = (lambda: self.answer(look)) if isinstance(look, str) else look
        return child.until(asked, self.held, what, every=self.every, seconds=seconds)

    def until_last(self, table: str = TABLE.name) -> None:
        """Wait until the last message's row is visible."""
        self.until(f"select 1 from {table} where id = {SENTINEL}", "the last message")

    def snapshot(self) -> Snapshot:
        """CPU seconds of servers and system until now."""
        return Snapshot.of({**self.servers.cpu(), **self.held.cpu()})

    def reaches(self, tables: Sequence[Table], expected: Mapping[str, Expected]) -> bool:
        """Whether the tables have the expected content within SETTLE_SECONDS; the system must still run."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.servers.found(tables) != expected:
            if time.monotonic() > deadline:
                return False
            time.sleep(_SETTLE_LOOK_SECONDS)
        return True

    def end(self, right: bool) -> dict[str, Any]:
        """Stop the system; returns fields of a result. A lane must leave nothing prepared, and end with status 0."""
        status = self.held.stop()
        prepared = self.servers.prepared()
        is_correct = right and not (self.system.is_lane and (prepared or status))
        return {"prepared_left": prepared, "exit_status": status, "correct": is_correct}


@contextmanager
def trial(servers: Servers, system: System, topic: str, ddl: Sequence[str], every: float = 0.01) -> Iterator[Trial]:
    """Start the system on `topic`, with these tables; stop it at the end of the block."""
    servers.empty_database(ddl, with_ledger=system.is_lane)
    start = Snapshot.of(servers.cpu())
    with servers.connect() as probe, probe.cursor() as cursor, system.running(servers, topic) as held:
        yield Trial(servers, system, cursor, held, start, every)
