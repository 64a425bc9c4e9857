"""The benchmark's changes: seeded, so that every run and every system gets the same bytes.

60 % updates, 35 % inserts, 5 % deletes, in Debezium's JSON without schema, with full before image. The last change
inserts row -1 into the first table, so that another connection can see the end.

    uniform      one table of 6 columns, 792 bytes a message; any row is as likely to be changed as any other
    hot          the same, rows by Zipf's law among 1,000 keys
    wide         one table of 100 columns, a sixteenth of the values NULL; rows as in uniform
    many-tables  the table of uniform 100 times, changes spread evenly

A `Shape` makes others: other numbers of tables and columns, longer rows, a table that does not grow.
"""

import bisect
import enum
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from psycopg2 import extensions

from tools.testbed import tables
from tools.testbed.tables import BEGIN_MICROS, MANY_TABLES, WIDE_COLUMNS, WORDS, Expected, Row, Table

SEED = 42
#: id of the last row
SENTINEL = -1

_UPDATES, _INSERTS = 0.60, 0.95  # cumulated; the rest are deletes
_HOT_KEYS = 1000
_FIRST_LSN = 24_023_128
#: of a shape that has transactions
_TRANSACTION_CHANGES = 10
#: changes from which the mean message size is computed
_SAMPLE = 2000
#: the same where rows may be long, but have equal lengths
_SHORT_SAMPLE = 200


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A workload's dimensions; the default is one table of 6 columns, 792 bytes a message, uniform choice of rows."""

    #: identical tables; changes are spread evenly
    tables: int = 1
    #: columns of all types, a sixteenth of the values NULL; None: the six simple columns. Only with one table
    columns: int | None = None
    #: rows of many columns are not toasted, see `tools.testbed.tables.Table.is_whole`
    is_whole: bool = False
    #: approximate bytes of a simple row, by the length of its note; None: notes of six words
    row_bytes: int | None = None
    #: choose rows by Zipf's law among few keys
    hot: bool = False
    #: most rows of the table at a time; at this number an insert becomes a delete. None: the table grows by three rows
    #: in ten changes
    most_rows: int | None = None
    #: messages name their source transaction, of ten changes
    in_transactions: bool = False
    #: explicit name
    called: str = ""

    @property
    def name(self) -> str:
        """For names of topics and for results."""
        parts = (
            ("tables", self.tables if self.tables > 1 else None),
            *(("columns", self.columns), ("bytes", self.row_bytes), ("rows", self.most_rows)),
        )
        differences = [f"{what}-{number}" for what, number in parts if number is not None] + ["whole"] * self.is_whole
        differences += ["transactions"] * self.in_transactions
        return self.called or ".".join(differences) or "uniform"

    @property
    def made(self) -> tuple[Table, ...]:
        """The tables; cached, so equal shapes share them."""
        return _made(self.tables, self.columns, self.is_whole)

    @property
    def ddl(self) -> list[str]:
        return [table.ddl for table in self.made]


@cache
def _made(number: int, columns: int | None, is_whole: bool) -> tuple[Table, ...]:
    return tables.simple(number) if columns is None else (tables.wide(columns, is_whole=is_whole),)


class Kind(enum.StrEnum):
    """The named workloads."""

    UNIFORM = "uniform"
    HOT = "hot"
    WIDE = "wide"
    MANY_TABLES = "many-tables"

    @property
    def shape(self) -> Shape:
        return _SHAPES[self]


_SHAPES = {
    Kind.UNIFORM: Shape(called=Kind.UNIFORM),
    Kind.HOT: Shape(called=Kind.HOT, hot=True),
    Kind.WIDE: Shape(called=Kind.WIDE, columns=WIDE_COLUMNS),
    Kind.MANY_TABLES: Shape(called=Kind.MANY_TABLES, tables=MANY_TABLES),
}


class Change(NamedTuple):
    """One change; `op` is Debezium's: c, u, d."""

    op: str
    table: Table
    #: number of the row, unique over all tables
    number: int
    before: Row | None
    after: Row | None

    @property
    def id(self) -> int:
        row = self.after or self.before
        assert row is not None, "a change has an image"
        return int(row[0] or 0)


class Workload:
    """An iterable of `count` changes; `rows` is their result, complete after the iteration."""

    def __init__(self, shape: Shape, count: int, seed: int = SEED) -> None:
        self.tables = shape.made
        self._count = count
        self._random = random.Random(seed)
        self._changes = self._hot if shape.hot else self._uniform
        self._values = self._simple if shape.columns is None else self._wide
        self._note = self._words if shape.row_bytes is None else self._piece
        self._note_bytes = (shape.row_bytes or 0) - tables.SIMPLE_BYTES
        self._most_rows = shape.most_rows or count
        #: by row number: row n is in table n modulo the number of tables
        self.rows: dict[int, Row] = {}

    def __iter__(self) -> Iterator[Change]:
        for change in self._changes(self._count - 1):
            self._fold(change)
            yield change
        number = SENTINEL * len(self.tables)
        last = self._change("c", number, None, self._row(number, self._count - 1))
        self._fold(last)
        yield last

    def expected(self) -> dict[str, Expected]:
        """The right content of the tables, by name."""
        found: dict[str, list[Row]] = {table.name: [] for table in self.tables}
        for number, row in self.rows.items():
            found[self._table(number).name].append(row)
        return {name: Expected.of(rows) for name, rows in found.items()}

    def _table(self, number: int) -> Table:
        return self.tables[number % len(self.tables)]

    def _change(self, op: str, number: int, before: Row | None, after: Row | None) -> Change:
        return Change(op, self._table(number), number, before, after)

    def _fold(self, change: Change) -> None:
        if change.after is None:
            del self.rows[change.number]
        else:
            self.rows[change.number] = change.after

    def _op(self) -> str:
        chance = self._random.random()
        return "u" if chance < _UPDATES else "c" if chance < _INSERTS else "d"

    def _uniform(self, count: int) -> Iterator[Change]:
        living: list[int] = []
        fresh = itertools.count(1)
        for ordinal in range(count):
            op = self._op()
            if op == "c" and len(living) >= self._most_rows:
                op = "d"
            if op == "c" or not living:
                number = next(fresh)
                living.append(number)
                yield self._change("c", number, None, self._row(number, ordinal))
                continue
            place = int(self._random.random() * len(living))
            number = living[place]
            if op == "d":
                living[place] = living[-1]
                living.pop()
                yield self._change("d", number, self.rows[number], None)
            else:
                yield self._change("u", number, self.rows[number], self._row(number, ordinal))

    def _hot(self, count: int) -> Iterator[Change]:
        shares = list(itertools.accumulate(1 / (rank + 1) for rank in range(_HOT_KEYS)))
        fresh = itertools.count(_HOT_KEYS + 1)
        for ordinal in range(count):
            op = self._op()
            number = next(fresh) if op == "c" else bisect.bisect_left(shares, self._random.random() * shares[-1]) + 1
            before = self.rows.get(number)
            if before is None:  # a new row, or a hot one that does not exist: insert it
                yield self._change("c", number, None, self._row(number, ordinal))
            else:
                yield self._change(op, number, before, None if op == "d" else self._row(number, ordinal))

    def _row(self, number: int, ordinal: int) -> Row:
        return (str(number // len(self.tables)), *self._values(ordinal))

    def _simple(self, ordinal: int) -> Row:
        note = self._note()
        updated_at = tables.MOMENT.made(self._random, ordinal)
        kinds = (tables.ACCOUNT, tables.AMOUNT, tables.STATUS)
        return (*(kind.made(self._random, ordinal) for kind in kinds), note, updated_at)

    def _words(self) -> str:
        bits = self._random.getrandbits
        return " ".join([WORDS[bits(12)] for _ in range(6)])

    def _piece(self) -> str:
        begin = self._random.getrandbits(tables.TEXT_BITS) - self._note_bytes  # below 0 it wraps around
        end = begin + self._note_bytes
        return tables.TEXT[begin:end] if begin >= 0 else tables.TEXT[begin:] + tables.TEXT[:end]

    def _wide(self, ordinal: int) -> Row:
        bits, kinds = self._random.getrandbits, itertools.islice(self.tables[0].columns.values(), 1, None)
        return tuple(kind.made(self._random, ordinal) if bits(4) else None for kind in kinds)


def as_many_bytes(shape: Shape, messages: int) -> int:
    """The number of messages with about as many bytes as `messages` of uniform; at most `messages`."""
    if shape.columns is None and shape.row_bytes is None:
        return messages
    return min(messages, max(1, round(messages * bytes_each(Kind.UNIFORM.shape) / bytes_each(shape))))


def bytes_each(shape: Shape) -> float:
    """Approximate mean bytes of a message's value."""
    sample = _SAMPLE if shape.row_bytes is None else _SHORT_SAMPLE
    return sum(len(value_of(change, n, BEGIN_MICROS)) for n, change in enumerate(Workload(shape, sample))) / sample


def key_of(change: Change) -> str:
    return f'{{"id":{change.id}}}'


def transaction_of(ordinal: int) -> str:
    """The block of a message that names its source transaction."""
    place = ordinal % _TRANSACTION_CHANGES + 1
    return f'{{"id":"{_transaction(ordinal)}","total_order":{place},"data_collection_order":{place}}}'


def end_of(ordinal: int, table: Table) -> str:
    """The message that ends the transaction of this last change."""
    place = ordinal % _TRANSACTION_CHANGES + 1
    counts = f'[{{"data_collection":"public.{table.name}","event_count":{place}}}]'
    return (
        f'{{"status":"END","id":"{_transaction(ordinal)}","event_count":{place},"data_collections":{counts},'
        f'"ts_ms":{BEGIN_MICROS // 1000}}}'
    )


def _transaction(ordinal: int) -> str:
    return f"{700 + ordinal // _TRANSACTION_CHANGES}:{_FIRST_LSN + ordinal // _TRANSACTION_CHANGES * 2000}"


def value_of(change: Change, ordinal: int, micros: int, transaction: str = "null") -> str:
    """The message value, in ASCII; `micros` is the source's commit time in microseconds since 1970."""
    millis, lsn = micros // 1000, _FIRST_LSN + ordinal * 200
    before, after = change.table.image(change.before), change.table.image(change.after)
    return (
        f'{{"before":{before},"after":{after},"source":{{"version":"3.5.0.Final",'
        f'"connector":"postgresql","name":"pg","ts_ms":{millis},"snapshot":"false","db":"src",'
        f'"sequence":"[\\"{lsn - 200}\\",\\"{lsn}\\"]","ts_us":{micros},"ts_ns":{micros}000,"schema":"public",'
        f'"table":"{change.table.name}","txId":{700 + ordinal},"lsn":{lsn},"xmin":null}},"transaction":{transaction},'
        f'"op":"{change.op}","ts_ms":{millis + 5},"ts_us":{millis + 5}123,"ts_ns":{millis + 5}123456}}'
    )


def statement(cursor: extensions.cursor, change: Change) -> bytes:
    """The change as SQL, of a shape of simple columns."""
    key, row = change.id, change.after
    if row is None:
        return cursor.mogrify(f"delete from {change.table.name} where id = %s", (key,))
    if change.op == "c":
        return cursor.mogrify(f"insert into {change.table.name} values ({', '.join(['%s'] * len(row))})", row)
    names = ", ".join(f"{name} = %s" for name in [*change.table.columns][1:])
    return cursor.mogrify(f"update {change.table.name} set {names} where id = %s", (*row[1:], key))
