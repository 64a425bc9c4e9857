"""Whether a session of Postgres is ours: a pooler in between changes it between transactions, or drops its settings."""

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
    """Raise TargetMismatch unless `connection`, on which no transaction is open, is one session with the settings that
    it was opened with.

    A second connection has a transaction of its own meanwhile: it takes the session of the server that a pooler was
    just given back. `key` of the configuration has the URL.
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
