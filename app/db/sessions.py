"""Activity of this process' sessions at the server, and the sessions that block them, seen by a separate connection."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, Row, event, text
from sqlalchemy.pool import ConnectionPoolEntry

from app.db.kept_connection import KeptConnection
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
#: without pg_read_all_stats a session of another role shows only pid, application and user
_BLOCKERS = text("""
    select pid, application_name as application, usename as user, state,
        upper(substring(query from '^\\s*([A-Za-z]{1,20})')) as query,
        round(greatest(0, extract(epoch from clock_timestamp() - xact_start))::numeric, 1)::float8 as seconds
    from pg_stat_activity where pid = any(:pids) order by pid
""")


@dataclass(frozen=True, kw_only=True)
class AtWork:
    """A session in the middle of a statement: it computes, reads, writes, or waits for a lock."""

    pid: int
    #: since the start of its statement
    seconds: float
    waits: bool
    #: the sessions that block it; without values of rows
    blockers: tuple[dict[str, object], ...] = ()


class Looker:
    """A connection that reads pg_stat_activity, opened on first use; safe to use from any thread."""

    def __init__(self, engine: Engine) -> None:
        """`engine`: the login of the inspected sessions, without SET ROLE, as the role would not see them."""
        self._connection = KeptConnection(engine)
        #: one query at a time: that of a stopped watch may still wait for its answer
        self._lock = threading.Lock()

    def look(self, pids: Sequence[int]) -> list[AtWork]:
        """The sessions among `pids` that are in the middle of a statement. Raises Unreachable."""
        with self._lock, translated("looking at the lane's sessions"), self._connection.used() as connection:
            return _look(connection, pids)

    def close(self) -> None:
        """End the connection; the next `look` opens another one."""
        with self._lock:
            self._connection.close()


class Sessions:
    """The sessions of all connections that `engine` opens from now on; `looker` uses the same server."""

    def __init__(self, engine: Engine, looker: Looker) -> None:
        self._pids: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self.looker = looker

        @event.listens_for(engine, "connect")
        def remember(dbapi_connection: Any, _: ConnectionPoolEntry) -> None:
            with self._lock:
                self._pids[dbapi_connection] = dbapi_connection.info.backend_pid

    def at_work(self) -> list[AtWork]:
        """The sessions in the middle of a statement; not those that wait for this process. Raises Unreachable."""
        with self._lock:
            pids = [pid for connection, pid in self._pids.items() if not connection.closed]
        return self.looker.look(pids) if pids else []


def _blocker(row: Row[Any]) -> dict[str, object]:
    names = ("pid", "application", "user", "state", "query", "seconds")
    return {name: value for name in names if (value := getattr(row, name)) not in (None, "")}


def _unseen(pid: int) -> dict[str, object]:
    return {"prepared": True} if pid == _PREPARED else {"pid": pid}


def _look(connection: Connection, pids: Sequence[int]) -> list[AtWork]:
    own = connection.execute(_OWN, {"pids": list(pids)}).all()
    wanted = sorted({pid for row in own for pid in row.blockers})
    rows = connection.execute(_BLOCKERS, {"pids": wanted}).all() if wanted else []
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
