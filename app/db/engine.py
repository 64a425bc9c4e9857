"""Engines to Postgres.

A lane has no pool: it keeps its few connections for its whole life, each with its session state (role, lock). Broken
networks are detected within half a minute instead of the kernel's two hours.
"""

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

import psycopg2
from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, QueuePool

from app.config.credentials import password_from, without_password_from
from app.credentials.passwords import connected
from app.db.joined import joins
from app.db.sqlstate import CommitLost
from app.errors import SurelaneError

#: seconds to wait for a connection
CONNECT_TIMEOUT_SECONDS = 10
#: milliseconds that a statement waits for a lock of another session before the epoch is retried
LOCK_TIMEOUT_MS = 10_000
#: a connection without answers is given up after idle + count * interval seconds
KEEPALIVES = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
#: milliseconds that sent data may stay unacknowledged
TCP_USER_TIMEOUT_MS = 25_000

#: seconds for which a connection is kept at most: by then the name of a server may have another address
KEPT_SECONDS = 300

#: session settings, so that text forms do not depend on the settings of server or role
SESSION = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    # timeouts of ALTER ROLE and ALTER DATABASE would abort a healthy lane
    "statement_timeout": "0",
    "lock_timeout": f"{LOCK_TIMEOUT_MS}ms",
    "idle_in_transaction_session_timeout": "0",
    # rows that a policy hides raise an error (SQLSTATE 42501) instead of being absent
    "row_security": "off",
    "client_encoding": "UTF8",
    # a backslash in a literal is a backslash, whatever the settings of role or database
    "standard_conforming_strings": "on",
}

#: settings by the first server version that has them; an older one refuses a connection that names them
NEWER: Mapping[int, Mapping[str, str]] = {
    14_00_00: {"idle_session_timeout": "0"},
    17_00_00: {"transaction_timeout": "0"},
}

#: key of a connection's `info`: whether it ends its transaction by COMMIT
_COMMITS = "surelane commits"
#: a setting without effect in Postgres: a session that lacks it is not the opened one
MARK_SETTING, MARK = "surelane.session", uuid.uuid4().hex


def make_engine(
    url: str | URL,
    owner_role: str | None = None,
    application_name: str = "surelane",
    *,
    connect_timeout: int = CONNECT_TIMEOUT_SECONDS,
    kept: int = 0,
) -> Engine:
    """Engine whose connections SET ROLE `owner_role`: each member of the role can end prepared transactions of another.

    With `password_from` in the URL, each connection looks up its password. `kept`: connections that stay open between
    two uses, for some minutes; data that is not acknowledged ends them after `connect_timeout` seconds, too.
    """
    whole = make_url(url)
    pool: dict[str, Any] = {"poolclass": NullPool}
    if kept:
        pool = {"poolclass": QueuePool, "pool_size": kept, "max_overflow": -1, "pool_recycle": KEPT_SECONDS}
    engine = create_engine(
        without_password_from(whole),
        **pool,
        connect_args={
            "connect_timeout": connect_timeout,
            "application_name": application_name,
            "tcp_user_timeout": connect_timeout * 1000 if kept else TCP_USER_TIMEOUT_MS,
            "options": _options(),
            **KEEPALIVES,
        },
    )

    joins(engine)
    _name_lost_commits(engine)
    if password_from(whole) is not None:
        _look_up_password(engine, whole)

    quoted = None if owner_role is None else engine.dialect.identifier_preparer.quote_identifier(owner_role)

    @event.listens_for(engine, "connect")
    def prepare(dbapi_connection: Any, _: ConnectionPoolEntry) -> None:
        wanted = [f"set {name} = {value}" for name, value in newer(dbapi_connection.server_version).items()]
        wanted += [] if quoted is None else ["set role " + quoted]
        if wanted:
            with dbapi_connection.cursor() as cursor:
                cursor.execute("; ".join(wanted))
            dbapi_connection.commit()

    return engine


def only_read() -> None:
    """Transactions of sessions that this process opens from now on only read, unless they ask to write."""
    SESSION["default_transaction_read_only"] = "on"


def timeouts(version: int) -> dict[str, str]:
    """Each timeout setting of a connection by name, for a server of this version."""
    return {name: value for name, value in SESSION.items() if name.endswith("_timeout")} | newer(version)


def newer(version: int) -> dict[str, str]:
    """The settings of NEWER that a server of this version (`server_version_num`) has."""
    return {name: value for first, settings in NEWER.items() if version >= first for name, value in settings.items()}


def _options() -> str:
    settings = {**SESSION, MARK_SETTING: MARK}
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items())


def _name_lost_commits(engine: Engine) -> None:
    """Raise CommitLost in place of the driver's error; that of a lost ROLLBACK, or connection attempt, is the same."""

    def note(connection: Connection, *, commits: bool) -> None:
        if not connection.invalidated:
            connection.info[_COMMITS] = commits

    event.listen(engine, "commit", partial(note, commits=True))
    event.listen(engine, "rollback", partial(note, commits=False))

    @event.listens_for(engine, "handle_error", retval=True)
    def handle_error(context: ExceptionContext) -> BaseException | None:
        connection, is_sent = context.connection, context.statement is not None
        if connection is None or is_sent or not context.is_disconnect or not connection.info.get(_COMMITS, False):
            return None
        return CommitLost(None, None, context.original_exception, connection_invalidated=True)


def _look_up_password(engine: Engine, url: URL) -> None:
    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _: ConnectionPoolEntry, words: list[Any], options: dict[str, Any]) -> Any:
        def to(user: str, password: str) -> Any:
            return dialect.connect(*words, **{**options, "user": user, "password": password})

        try:
            return connected(url, to, psycopg2.OperationalError)
        except SurelaneError as error:  # callers handle it as a failed connection
            raise psycopg2.OperationalError(str(error)) from error
