"""A connection in autocommit that is kept between uses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine


class KeptConnection:
    """Opened on first use; given up at an error, so that the next use opens another one. One thread at a time uses it:
    a connection that died would refuse statements until its transaction of SQLAlchemy, which it has in autocommit, too,
    is rolled back."""

    def __init__(self, engine: Engine, on_open: Callable[[Connection], object] = lambda _: None) -> None:
        """`on_open` is called with each connection that is opened."""
        self._engine, self._on_open = engine.execution_options(isolation_level="AUTOCOMMIT"), on_open
        self._connection: Connection | None = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    @contextmanager
    def used(self) -> Iterator[Connection]:
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
                self._on_open(self._connection)
            yield self._connection
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """The server ends the session as soon as the socket is closed; nothing is sent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()
