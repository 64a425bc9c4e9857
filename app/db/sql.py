"""Runs SQL text that is built from quoted names, where `%` is no placeholder."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, CursorResult
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.exc import DBAPIError

#: not that of the connection, which doubles each `%` in a name for psycopg2's parameter style
_NAMES = PGDialect(paramstyle="named").identifier_preparer
_NO_PARAMETERS = {"no_parameters": True}


def quoted(name: str) -> str:
    """A quoted identifier for `run`."""
    return _NAMES.quote_identifier(name)


def literal(text: str) -> str:
    """A quoted literal for `run`."""
    return "'" + text.replace("'", "''") + "'"


def run(connection: Connection, sql: str) -> CursorResult[Any]:
    """Execute `sql` without parameters."""
    return connection.exec_driver_sql(sql, execution_options=_NO_PARAMETERS)


@contextmanager
def as_login(connection: Connection) -> Iterator[None]:
    """Inside, the session has no SET ROLE: the role is no member of the login and does not see its sessions."""
    role = connection.exec_driver_sql("select current_user").scalar_one()
    run(connection, "set role none")
    try:
        yield
    except BaseException:
        if not connection.invalidated:
            with suppress(DBAPIError):  # in a transaction, which the rollback takes back
                run(connection, f"set role {quoted(role)}")
        raise
    run(connection, f"set role {quoted(role)}")


@contextmanager
def discarded(connection: Connection) -> Iterator[None]:
    """Run the block in a subtransaction that is always rolled back."""
    with connection.begin_nested() as inside:
        yield
        inside.rollback()
