"""Detects a connection pooler, which changes sessions between transactions or drops their settings."""

from sqlalchemy import Connection, Engine, text

from app.db.engine import MARK, MARK_SETTING
from app.errors import TargetMismatch

_LOOK = text("select pg_backend_pid(), current_setting(:name, true)")
_WHY = (
    "a connection pooler is in between (PgBouncer, RDS Proxy, pgcat, ...): {what}. The lane's lock, its role and its "
    "settings belong to a session, and do not survive that; nothing was changed"
)
_HINT = (
    "point {key} at Postgres itself: a lane keeps a handful of connections for its whole life, and needs no pooler. "
    "With RDS Proxy: the endpoint of the instance, or of the cluster's writer"
)


def check_direct(engine: Engine, connection: Connection, key: str = "target.url") -> None:
    """Raise TargetMismatch unless `connection` is always the same session of Postgres, with its initial settings.

    No transaction is open on `connection`. A second connection opens a transaction between the two checks: from a
    pooler it gets the session that `connection` has just released. `key`: configuration key of the URL.
    """
    before, mark = _look(connection)
    with engine.connect().execution_options(isolation_level="READ COMMITTED") as other, other.begin():
        other.execute(text("select"))
        after, _ = _look(connection)
    if before == after and mark == MARK:
        return
    lost = "it drops the settings of a session" if before == after else "each transaction may run in another session"
    raise TargetMismatch(_WHY.format(what=lost), hint=_HINT.format(key=key))


def _look(connection: Connection) -> tuple[int, str | None]:
    with connection.begin():
        pid, mark = connection.execute(_LOOK, {"name": MARK_SETTING}).one()
    return pid, mark
