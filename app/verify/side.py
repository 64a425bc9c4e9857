"""A snapshot of one of the two databases, and the queries of it. The server hashes its rows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Engine

from app.db.sql import literal, quoted, run
from app.db.sqlstate import translated
from app.verify.key_range import KeyRange
from app.verify.pair import Half

#: characters of a value that are shown, at most
SHOWN_CHARACTERS = 200

Key = tuple[str | None, ...]

#: these, and what `app.db.engine` sets, decide how values look as text; statements may take long: no timeouts
_SETTINGS = {
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "xmlbinary": "base64",
    "standard_conforming_strings": "on",
    "search_path": "pg_catalog",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}


@dataclass(frozen=True)
class Sum:
    """Count and hash of a set of rows; the hash does not depend on their order."""

    rows: int = 0
    hash: Decimal = Decimal(0)


@dataclass(frozen=True)
class Row:
    """A row: hash and first characters of each column; None for NULL, `shown` also for hidden columns."""

    hashes: tuple[str | None, ...]
    shown: tuple[str | None, ...]


class DatabaseSide:
    """A database within a snapshot."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection, self.name = connection, name

    def cancel(self) -> None:
        """Cancel the running statement, from another thread."""
        driver = self.connection.connection.driver_connection
        if driver is not None:
            driver.cancel()

    def sums(self, half: Half, box: KeyRange, at: int, bounds: Sequence[str]) -> list[Sum]:
        """Sums of the parts into which `bounds` cut the range by key column number `at`."""
        row = f"row({', '.join(f'{quoted(name)}::text' for name in half.columns)})::text"
        column = half.key[at]
        part = f"width_bucket({column.ordered}, {column.literals([*bounds])})" if bounds else "0"
        sql = (  # names are quoted, values are literals
            f"select coalesce({part}, 0), count(*),"  # noqa: S608
            f" sum(('x' || left(md5(convert_to({row}, 'UTF8')), 16))::bit(64)::bigint)"
            f" from {half.table} where ({box.where(half.key)}) and {half.only} group by 1"
        )
        found = [Sum()] * (len(bounds) + 1)
        for number, count, total in self._rows(sql):
            found[number] = Sum(count, total)
        return found

    def bounds(self, half: Half, box: KeyRange, at: int, parts: int) -> list[str]:
        """Values of key column number `at` that cut the range into about `parts` equal parts, or fewer."""
        column = half.key[at]
        fractions = ", ".join(str(n / parts) for n in range(1, parts))
        sql = (
            f"select percentile_disc(array[{fractions}]::float8[]) within group (order by {column.ordered})::text[]"  # noqa: S608
            f" from {half.table} where ({box.where(half.key)}) and {half.only}"
        )
        (row,) = self._rows(sql)
        return list(dict.fromkeys(value for value in row[0] or () if value not in (None, box.intervals[at].low)))

    def rows(self, half: Half, box: KeyRange, hidden: Sequence[bool]) -> list[tuple[Key, Row]]:
        """Keys and rows in the range."""
        return self._fetch(half, box.where(half.key), hidden)

    def named(self, half: Half, keys: Sequence[Key], hidden: Sequence[bool]) -> list[tuple[Key, Row]]:
        """Keys and rows with these keys."""
        return self._fetch(half, " or ".join(_same(half, key) for key in keys) or "false", hidden)

    def _fetch(self, half: Half, where: str, hidden: Sequence[bool]) -> list[tuple[Key, Row]]:
        key = ", ".join(f"{quoted(column.name)}::text" for column in half.key)
        texts = [f"{quoted(name)}::text" for name in half.columns]
        hashes = ", ".join(f"md5(convert_to({text}, 'UTF8'))" for text in texts)
        each = zip(texts, hidden, strict=True)
        shown = ", ".join("null" if out else f"left({text}, {SHOWN_CHARACTERS + 1})" for text, out in each)
        found = f"select array[{key}], array[{hashes}], array[{shown}]::text[] from {half.table}"  # noqa: S608
        sql = f"{found} where ({where}) and {half.only}"  # names are quoted, values are literals
        return [(tuple(row[0]), Row(tuple(row[1]), tuple(row[2]))) for row in self._rows(sql)]

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with translated(f"verify: reading {self.name}", discreet=True):
            return [tuple(row) for row in run(self.connection, sql)]


def _same(half: Half, key: Key) -> str:
    each = zip(half.key, key, strict=True)
    parts = (f"{c.same} is null" if text is None else f"{c.same} = {c.literal(text)}" for c, text in each)
    return f"({' and '.join(parts)})"


@contextmanager
def snapshot(engine: Engine, name: str) -> Iterator[DatabaseSide]:
    """A read-only REPEATABLE READ transaction on a database."""
    with translated(f"verify: reading {name}"), engine.connect() as plain:
        connection = plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        settings = ", ".join(f"set_config({literal(n)}, {literal(value)}, true)" for n, value in _SETTINGS.items())
        run(connection, f"select {settings}")
        yield DatabaseSide(connection, name)
        connection.rollback()
