"""The lane's lock: a session advisory lock on the connection that writes the epochs.

The lock ends with that connection, and so does each transaction that the connection has not prepared: only the holder
of the lock can prepare or commit an epoch.
"""

import hashlib
import time

from sqlalchemy import Connection, text

from app.db.sql import as_login

#: seconds between two attempts to take a lock
TRY_SECONDS = 0.05

_TRY = text("select pg_try_advisory_lock(:key)")
_HOLDER = text("""
    select l.pid from pg_locks l join pg_database d on d.oid = l.database
    where l.locktype = 'advisory' and l.granted and d.datname = current_database() and l.objsubid = 1
      and (l.classid::bigint << 32 | l.objid::bigint) = :key
""")
#: a session that this role may not see has no backend_start
_CLIENT = text("""
    select coalesce(host(client_addr), 'the server itself') from pg_stat_activity
    where pid = :pid and backend_start is not null
""")
#: does nothing without the privilege: an error would abort the transaction, and the session may end by itself
_TERMINATE = text("""
    select pg_terminate_backend(pid) from pg_stat_activity where pid = :pid and pg_has_role(usesysid, 'usage')
""")


def lock_key(lane: str) -> int:
    """Signed 64-bit key of the lane's advisory lock."""
    return int.from_bytes(hashlib.sha256(f"surelane lane {lane}".encode()).digest()[:8], "big", signed=True)


def try_lock(connection: Connection, lane: str) -> bool:
    """Take the lane's lock for this session; False if another session holds it."""
    return bool(connection.execute(_TRY, {"key": lock_key(lane)}).scalar_one())


def lock_holder(connection: Connection, lane: str) -> int | None:
    """Backend pid of the session that holds the lane's lock, or None."""
    return connection.execute(_HOLDER, {"key": lock_key(lane)}).scalars().first()


def wait_for_lock(connection: Connection, lane: str, seconds: float) -> int | None:
    """Take the lane's lock; None once this session has it, else the backend pid of its holder after `seconds`.

    The server ends the session of a dead process with a short delay.
    """
    deadline = time.monotonic() + seconds
    while not try_lock(connection, lane):
        holder = lock_holder(connection, lane)
        if holder is not None and time.monotonic() > deadline:
            return holder
        time.sleep(TRY_SECONDS)
    return None


def client(connection: Connection, pid: int) -> str | None:
    """Client address of a session; None when the session is gone or this role may not see it."""
    with as_login(connection):
        return connection.execute(_CLIENT, {"pid": pid}).scalars().first()


def terminate(connection: Connection, pid: int) -> None:
    """End another session of the same login; the server rolls back what it has not prepared."""
    with as_login(connection):
        connection.execute(_TERMINATE, {"pid": pid})
