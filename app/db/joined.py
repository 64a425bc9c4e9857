"""Sends statements whose results are not read together with the next statement: a round trip less for each.

A transaction of `TransactionBlock` begins with its first statement and ends with its last one, in one round trip each.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE
from sqlalchemy import Connection, Engine, Executable, event
from sqlalchemy.engine.interfaces import ExecutionContext
from sqlalchemy.exc import DBAPIError

from app.db.sql import run

_LATER = "surelane_later"
_SAVEPOINT = "savepoint joined"
#: by connection of the driver: the statements that wait for the next one
_WAITING: WeakKeyDictionary[Any, list[bytes]] = WeakKeyDictionary()
#: by connection of the driver: what the server has reported of the statements that were sent together last
_NOTICES: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()


def joins(engine: Engine) -> None:
    """Make `later` possible on the engine's connections."""

    def send(cursor: Any, statement: str, parameters: Any, context: ExecutionContext) -> bool:
        waiting = _WAITING.get(cursor.connection)
        is_later = context.execution_options.get(_LATER, False)
        if not waiting and not is_later:
            return False
        sent = cursor.mogrify(statement, parameters)
        if is_later:
            _WAITING.setdefault(cursor.connection, []).append(sent)
            return True
        assert waiting is not None
        together = b"; ".join([*waiting, sent])
        waiting.clear()
        cursor.execute(together)
        _NOTICES[cursor.connection] = list(cursor.connection.notices)  # SQLAlchemy deletes them
        return True

    @event.listens_for(engine, "do_execute")
    def execute(cursor: Any, statement: str, parameters: Any, context: ExecutionContext) -> bool:
        return send(cursor, statement, parameters, context)

    @event.listens_for(engine, "commit")
    def check(connection: Connection) -> None:
        assert not _waiting(connection), "a COMMIT of the driver does not send what waits"

    @event.listens_for(engine, "do_execute_no_params")
    def execute_without(cursor: Any, statement: str, context: ExecutionContext) -> bool:
        return send(cursor, statement, None, context)


def later(connection: Connection, statement: str | Executable, values: Mapping[str, Any] | None = None) -> None:
    """Send the statement with the next one, whose error may be that of this one; text without `values`."""
    if isinstance(statement, str):
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True, _LATER: True})
    else:
        connection.execute(statement, values, execution_options={_LATER: True})


def flush(connection: Connection) -> None:
    """Send what waits now."""
    waiting = _waiting(connection)
    if waiting:
        last = waiting.pop().decode()
        run(connection, last)


def reported(connection: Connection) -> str:
    """What the server has reported of the statements that were sent together last; once, then nothing."""
    return "".join(_NOTICES.pop(connection.connection.dbapi_connection, ()))


def take(connection: Connection, statement: str) -> str:
    """The statement with what waits before it, for one that is sent by the driver itself."""
    waiting = _waiting(connection)
    together = b"; ".join([*waiting, statement.encode()]).decode()
    waiting.clear()
    return together


@contextmanager
def subtransaction(connection: Connection) -> Iterator[None]:
    """As `begin_nested`, without a round trip of its own where the statements inside succeed."""
    later(connection, _SAVEPOINT)
    try:
        yield
    except BaseException:
        if not connection.invalidated:
            waiting = _waiting(connection)
            if (begin := _SAVEPOINT.encode()) in waiting:
                del waiting[waiting.index(begin) :]
            else:
                waiting.clear()
                run(connection, "rollback to savepoint joined; release savepoint joined")
        raise
    later(connection, "release savepoint joined")


def forget(connection: Connection) -> None:
    """Drop what waits."""
    _waiting(connection).clear()


def _is_begun(connection: Connection) -> bool:
    """Whether the server has a transaction of it, also one that has failed."""
    driver: Any = connection.connection.dbapi_connection
    return driver.info.transaction_status != TRANSACTION_STATUS_IDLE


def _waiting(connection: Connection) -> list[bytes]:
    return _WAITING.setdefault(connection.connection.dbapi_connection, [])


class TransactionBlock:
    """One transaction at a time on a connection. Subtransactions of the connection work inside as usual."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_open = False

    def begin(self) -> None:
        """BEGIN, with the first statement."""
        self._drive(by_itself=True)
        self._connection.begin()
        self._is_open = True
        later(self._connection, "begin")

    def end(self, statement: str) -> None:
        """End it by COMMIT or PREPARE TRANSACTION. If the connection is lost, the outcome is unknown; after another
        error nothing of it is left."""
        try:
            result = run(self._connection, statement)
            ended = getattr(result.context.cursor, "statusmessage", "")
            if ended == "ROLLBACK":  # what Postgres makes of either in a transaction that has failed
                raise psycopg2.InternalError("the transaction had failed before it was to end")
        except DBAPIError:  # of a statement that was sent with it, perhaps
            self.undo()
            raise
        finally:
            self._close()

    def undo(self) -> None:
        """ROLLBACK; a lost connection has rolled back."""
        if not self._is_open:
            return
        try:
            if not self._connection.invalidated:
                forget(self._connection)
                if _is_begun(self._connection):
                    run(self._connection, "rollback")
        except (DBAPIError, psycopg2.Error) as error:
            if not self._connection.invalidated:
                self._connection.invalidate(error)
        finally:
            self._close()

    def alone(self, statement: str) -> None:
        """Execute a statement that no transaction block may have."""
        self._drive(by_itself=True)
        try:
            run(self._connection, statement)
        finally:
            self._close()

    def _close(self) -> None:
        self._is_open = False
        transaction = self._connection.get_transaction()
        if transaction is not None:
            transaction.rollback()  # of SQLAlchemy's: the server's is over
        if not self._connection.invalidated:
            self._drive(by_itself=False)

    def _drive(self, *, by_itself: bool) -> None:
        """Whether the driver leaves BEGIN to this class."""
        driver: Any = self._connection.connection.dbapi_connection
        driver.autocommit = by_itself
