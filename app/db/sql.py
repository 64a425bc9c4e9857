"""Running SQL text that was built from quoted names, with `%` meaning nothing but itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, CursorResult
from sqlalchemy.dialects.postgresql.base import PGDialect

#: not the connection's own: under psycopg2's way of writing parameters that one doubles every `%` in a name
_NAMES = PGDialect(paramstyle="named").identifier_preparer
_NO_PARAMETERS = {"no_parameters": True}


def quoted(name: str) -> str:
    """A name as SQL text, for `run`."""
    return _NAMES.quote_identifier(name)


def literal(text: str) -> str:
    """A text as SQL text, for `run`."""
    return "'" + text.replace("'", "''") + "'"


def run(connection: Connection, sql: str) -> CursorResult[Any]:
    """Execute `sql` as it stands."""
    return connection.exec_driver_sql(sql, execution_options=_NO_PARAMETERS)


@contextmanager
def as_login(connection: Connection) -> Iterator[None]:
    """Without the role that the session has taken: that one is no member of the login, and sees no session of it."""
    role = connection.exec_driver_sql("select current_user").scalar_one()
    run(connection, "set role none")
    yield
    run(connection, f"set role {quoted(role)}")  # after an error the end of the transaction does it


@contextmanager
def discarded(connection: Connection) -> Iterator[None]:
    """What is done inside is undone at its end."""
    with connection.begin_nested() as inside:
        yield
        inside.rollback()
