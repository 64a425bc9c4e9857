"""The benchmark's changes: seeded, so that every run and every system gets the same bytes.

60 % updates, 35 % inserts, 5 % deletes of one table, in Debezium's JSON without schema, 792 bytes each, with full
before image. `uniform` chooses rows evenly, `hot` by Zipf's law among 1,000 keys. The last change inserts row -1, so
that the end can be seen from outside.
"""

import bisect
import datetime
import enum
import hashlib
import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

SEED = 42
TABLE = "bench"
DDL = (
    "create table bench (id bigint primary key, account text, amount numeric(12,2), status text, note text,"
    " updated_at timestamptz)"
)
#: number of rows and one hash over all of them, in the form of `Expected.of`
CHECKSUM = """
    select count(*), md5(string_agg(concat_ws('|', id, account, amount, status, note,
        to_char(updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')), E'\\n' order by id))
    from bench
"""
#: key of the last row
SENTINEL = -1
#: of the first change, microseconds since 1970
BEGIN_MICROS = 1_735_689_600_000_000

_UPDATES, _INSERTS = 0.60, 0.95  # cumulated; the rest are deletes
_HOT_KEYS = 1000
_STATES = ("new", "active", "held", "closed", "review")
_WORDS = [f"{random.Random(number).getrandbits(64):016x}" for number in range(4096)]
_FIRST_LSN = 24_023_128


class Kind(enum.StrEnum):
    """Which rows are changed."""

    UNIFORM = "uniform"  #: each as often as any other
    HOT = "hot"  #: few of them again and again


class Row(NamedTuple):
    """One row as text; `updated_at` ends in Z."""

    id: int
    account: str
    amount: str
    status: str
    note: str
    updated_at: str


class Change(NamedTuple):
    """One change; `op` as Debezium writes it: c, u, d."""

    op: str
    before: Row | None
    after: Row | None

    @property
    def key(self) -> int:
        """Primary key of the row."""
        row = self.after or self.before
        assert row is not None, "a change has an image"
        return row.id


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The right table at the end."""

    rows: int
    md5: str

    @classmethod
    def of(cls, table: Iterable[Row]) -> "Expected":
        """Of a folded table."""
        rows = sorted(table)
        text = "\n".join("|".join((str(row.id), *row[1:5], row.updated_at[:-1])) for row in rows)
        return cls(rows=len(rows), md5=hashlib.md5(text.encode(), usedforsecurity=False).hexdigest())


class Workload:
    """`count` changes; `table` is what they leave, complete once all of them were taken."""

    def __init__(self, kind: Kind, count: int, seed: int = SEED) -> None:
        self._count = count
        self._random = random.Random(seed)
        self._changes = self._uniform if kind is Kind.UNIFORM else self._hot
        self.table: dict[int, Row] = {}

    def __iter__(self) -> Iterator[Change]:
        for change in self._changes(self._count - 1):
            self._fold(change)
            yield change
        last = Change("c", None, self._row(SENTINEL, self._count - 1))
        self._fold(last)
        yield last

    def _fold(self, change: Change) -> None:
        if change.after is None:
            del self.table[change.key]
        else:
            self.table[change.key] = change.after

    def _op(self) -> str:
        chance = self._random.random()
        return "u" if chance < _UPDATES else "c" if chance < _INSERTS else "d"

    def _uniform(self, count: int) -> Iterator[Change]:
        living: list[int] = []
        fresh = itertools.count(1)
        for ordinal in range(count):
            op = self._op()
            if op == "c" or not living:
                key = next(fresh)
                living.append(key)
                yield Change("c", None, self._row(key, ordinal))
                continue
            place = int(self._random.random() * len(living))
            key = living[place]
            if op == "d":
                living[place] = living[-1]
                living.pop()
                yield Change("d", self.table[key], None)
            else:
                yield Change("u", self.table[key], self._row(key, ordinal))

    def _hot(self, count: int) -> Iterator[Change]:
        shares = list(itertools.accumulate(1 / (rank + 1) for rank in range(_HOT_KEYS)))
        fresh = itertools.count(_HOT_KEYS + 1)
        for ordinal in range(count):
            op = self._op()
            key = next(fresh) if op == "c" else bisect.bisect_left(shares, self._random.random() * shares[-1]) + 1
            before = self.table.get(key)
            if before is None:  # new, or a hot key that is not there: made again
                yield Change("c", None, self._row(key, ordinal))
            else:
                yield Change(op, before, None if op == "d" else self._row(key, ordinal))

    def _row(self, key: int, ordinal: int) -> Row:
        bits = self._random.getrandbits
        note = " ".join([_WORDS[bits(12)] for _ in range(6)])
        micros = BEGIN_MICROS + ordinal * 1000 + bits(9)
        account = f"ACC-{bits(32):010d}"
        amount = f"{bits(33) % 999_999_999_999 / 100:.2f}"
        return Row(key, account, amount, _STATES[bits(8) % 5], note, _iso(micros))


def key_of(change: Change) -> str:
    """The message key."""
    return f'{{"id":{change.key}}}'


def value_of(change: Change, ordinal: int, micros: int) -> str:
    """The message value; `micros` is the source's commit time, since 1970."""
    millis, lsn = micros // 1000, _FIRST_LSN + ordinal * 200
    return (
        f'{{"before":{_image(change.before)},"after":{_image(change.after)},"source":{{"version":"3.5.0.Final",'
        f'"connector":"postgresql","name":"pg","ts_ms":{millis},"snapshot":"false","db":"src",'
        f'"sequence":"[\\"{lsn - 200}\\",\\"{lsn}\\"]","ts_us":{micros},"ts_ns":{micros}000,"schema":"public",'
        f'"table":"{TABLE}","txId":{700 + ordinal},"lsn":{lsn},"xmin":null}},"transaction":null,"op":"{change.op}",'
        f'"ts_ms":{millis + 5},"ts_us":{millis + 5}123,"ts_ns":{millis + 5}123456}}'
    )


def _image(row: Row | None) -> str:
    if row is None:
        return "null"
    return (
        f'{{"id":{row.id},"account":"{row.account}","amount":"{row.amount}","status":"{row.status}",'
        f'"note":"{row.note}","updated_at":"{row.updated_at}"}}'
    )


def _iso(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    return f"{_iso_seconds(seconds)}.{rest:06d}Z"


@lru_cache(maxsize=16)
def _iso_seconds(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
