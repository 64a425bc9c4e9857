"""COPY of an epoch's lines into staging tables, and their emptying before. Names of tables and columns are quoted."""

import io
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from sqlalchemy import Connection

from app.db.sql import run

#: bytes handed to libpq at once
COPY_CHUNK_BYTES = 1 << 20


def copy_lines(connection: Connection, name: str, columns: Iterable[str], lines: "CopyLines") -> int:
    """COPY into these columns. Returns how many rows the server took."""
    driver: Any = connection.connection.dbapi_connection
    with driver.cursor() as cursor:
        cursor.copy_expert(f"copy {name} ({', '.join(columns)}) from stdin", lines, COPY_CHUNK_BYTES)
        return cursor.rowcount


def clear(connection: Connection, names: Iterable[str]) -> None:
    """Delete the rows of these staging tables in this transaction, so that they never become visible."""
    if statements := [f"delete from {name}" for name in names]:  # noqa: S608  # the names are quoted
        run(connection, "; ".join(statements))


def empty(connection: Connection, names: Sequence[str]) -> None:
    """TRUNCATE these staging tables; not while a transaction that filled them is prepared: it would wait."""
    run(connection, "truncate " + ", ".join(names))


class CopyLines(io.RawIOBase):
    """The text buffer of an Arrow string array as a file: lines that end in a newline are a COPY stream as they are."""

    def __init__(self, lines: pa.Array) -> None:
        super().__init__()
        _, offsets, data = lines.buffers()
        bounds = memoryview(offsets).cast("i")
        self._data = memoryview(data) if data is not None else memoryview(b"")
        self._at = bounds[lines.offset]
        self._end = bounds[lines.offset + len(lines)]
        self.size = self._end - self._at

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes; empty at the end."""
        end = self._end if size < 0 else min(self._at + size, self._end)
        chunk = bytes(self._data[self._at : end])
        self._at = end
        return chunk
