"""COPY of an epoch's lines into staging tables, and their emptying before. Names of tables and columns are quoted."""

import io
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from sqlalchemy import Connection

from app.db.joined import later, take
from app.db.sql import literal
from app.model.copy_values import value_of

#: bytes handed to libpq at once
COPY_CHUNK_BYTES = 1 << 20


def copy_lines(connection: Connection, name: str, columns: Iterable[str], lines: "CopyLines") -> int:
    """COPY into these columns. Returns how many rows the server took."""
    driver: Any = connection.connection.dbapi_connection
    with driver.cursor() as cursor:
        statement = take(connection, f"copy {name} ({', '.join(columns)}) from stdin")
        cursor.copy_expert(statement, lines, COPY_CHUNK_BYTES)
        return cursor.rowcount


def insertion(name: str, columns: Iterable[str], lines: pa.Array) -> str:
    """The statement that inserts what `copy_lines` copies."""
    rows = (line.removesuffix("\n").split("\t") for line in lines.to_pylist())
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    return f"insert into {name} ({', '.join(columns)}) values {values}"  # noqa: S608  # quoted


def _literal(field: str) -> str:
    value = value_of(field)
    return "null" if value is None else literal(value)


def deletion(name: str) -> str:
    """The statement that deletes the rows of a staging table."""
    return f"delete from {name}"  # noqa: S608  # quoted


def truncation(names: Iterable[str]) -> str:
    """The statement that empties staging tables; not while a transaction that merged them is prepared: it would
    wait."""
    return "truncate " + ", ".join(names)


def clear(connection: Connection, names: Iterable[str]) -> None:
    """Delete the rows of these staging tables with the transaction's next statement, so that they never become
    visible."""
    if statements := [*map(deletion, names)]:
        later(connection, "; ".join(statements))


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
