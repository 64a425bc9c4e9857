"""What this process' own sessions do at the server, and who keeps them waiting; seen from a connection beside them."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, Row, event, text
from sqlalchemy.pool import ConnectionPoolEntry

from app.db.sqlstate import translated

#: a prepared transaction has no session: `pg_blocking_pids` gives 0 for it
_PREPARED = 0
_OWN = text("""
    select pid, wait_event_type is not distinct from 'Lock' as waits,
        case when wait_event_type = 'Lock' then pg_blocking_pids(pid) else '{}' end as blockers,
        greatest(0, extract(epoch from clock_timestamp() - query_start))::float8 as seconds
    from pg_stat_activity
    where pid = any(:pids) and state = 'active' and wait_event_type is distinct from 'Client'
    order by pid
""")
#: of a session of another role only pid, application and user are shown, unless this one may read all statistics
_BLOCKERS = text("""
    select pid, application_name as application, usename as user, state,
        upper(substring(query from '^\\s*([A-Za-z]{1,20})')) as query,
        round(greatest(0, extract(epoch from clock_timestamp() - xact_start))::numeric, 1)::float8 as seconds
    from pg_stat_activity where pid = any(:pids) order by pid
""")


@dataclass(frozen=True, kw_only=True)
class AtWork:
    """One of the sessions, in the middle of a statement: it computes, reads, writes, or waits for a lock."""

    pid: int
    #: since its statement began
    seconds: float
    waits: bool
    #: whom it waits for; no value of a row is among it
    blockers: tuple[dict[str, object], ...] = ()


class Looker:
    """A connection to look from, opened when it is first needed; for any thread."""

    def __init__(self, engine: Engine) -> None:
        """`engine`: as the login whose sessions are looked at, without a role, for which it would see nothing."""
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._connection: Connection | None = None
        #: one look at a time: that of a watch which was stopped may still wait for its answer
        self._lock = threading.Lock()

    def look(self, pids: Sequence[int]) -> list[AtWork]:
        """Those of the sessions that are in the middle of a statement. Raises Unreachable."""
        with self._lock:
            try:
                with translated("looking at the lane's sessions"):
                    return self._look(pids)
            except BaseException:
                self._end()
                raise

    def close(self) -> None:
        """End the connection; the next look opens another one."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def _look(self, pids: Sequence[int]) -> list[AtWork]:
        if self._connection is None:
            self._connection = self._engine.connect()
        own = self._connection.execute(_OWN, {"pids": list(pids)}).all()
        wanted = sorted({pid for row in own for pid in row.blockers})
        rows = self._connection.execute(_BLOCKERS, {"pids": wanted}).all() if wanted else []
        known = {row.pid: _blocker(row) for row in rows}
        return [
            AtWork(
                pid=row.pid,
                seconds=row.seconds,
                waits=row.waits,
                blockers=tuple(known.get(pid, _unseen(pid)) for pid in sorted(set(row.blockers))),
            )
            for row in own
        ]


class Sessions:
    """Of the connections that `engine` opens from here on; `looker` is at the same server."""

    def __init__(self, engine: Engine, looker: Looker) -> None:
        self._pids: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self.looker = looker

        @event.listens_for(engine, "connect")
        def remember(dbapi_connection: Any, _: ConnectionPoolEntry) -> None:
            with self._lock:
                self._pids[dbapi_connection] = dbapi_connection.info.backend_pid

    def at_work(self) -> list[AtWork]:
        """Those in the middle of a statement; a session that waits for this process is not. Raises Unreachable."""
        with self._lock:
            pids = [pid for connection, pid in self._pids.items() if not connection.closed]
        return self.looker.look(pids) if pids else []


def _blocker(row: Row[Any]) -> dict[str, object]:
    names = ("pid", "application", "user", "state", "query", "seconds")
    return {name: value for name in names if (value := getattr(row, name)) not in (None, "")}


def _unseen(pid: int) -> dict[str, object]:
    return {"prepared": True} if pid == _PREPARED else {"pid": pid}
