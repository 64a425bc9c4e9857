"""The benchmark's tables: generators for their columns, their form in messages and COPY files, and their checksum.

Values are text in Debezium's form, without quotes.
"""

import datetime
import hashlib
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from random import Random
from typing import NamedTuple

from app.apply.staging import INLINE_BYTES

#: time of the first change, microseconds since 1970
BEGIN_MICROS = 1_735_689_600_000_000
STATES = ("new", "active", "held", "closed", "review")
WORDS = [f"{Random(number).getrandbits(64):016x}" for number in range(4096)]
WIDE_COLUMNS = 100
MANY_TABLES = 100
#: TEXT has 2 ** TEXT_BITS characters
TEXT_BITS = 21

#: values in the order of the columns, the id first
Row = tuple[str | None, ...]


def iso(micros: str) -> str:
    """Microseconds since 1970 as ISO text in UTC."""
    seconds, rest = divmod(int(micros), 1_000_000)
    return f"{_iso_seconds(seconds)}.{rest:06d}Z"


def micros(random: Random, ordinal: int) -> str:
    """Time of the change with this ordinal, microseconds since 1970."""
    return str(BEGIN_MICROS + ordinal * 1000 + random.getrandbits(9))


class Kind(NamedTuple):
    """Type and generator of a column."""

    ddl: str
    made: Callable[[Random, int], str]
    #: whether the value is a JSON string
    quoted: bool = True
    #: SQL for the column's value in Debezium's form; {c}: the column
    shown: str = "{c}"
    #: from Debezium's form to COPY's
    ready: Callable[[str], str] = str


_ISO = "to_char({c} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
ACCOUNT = Kind("text", lambda random, _: f"ACC-{random.getrandbits(32):010d}")
AMOUNT = Kind("numeric(12,2)", lambda random, _: f"{random.getrandbits(33) % 999_999_999_999 / 100:.2f}")
STATUS = Kind("text", lambda random, _: STATES[random.getrandbits(8) % 5])
_NOTE = Kind("text", lambda random, _: f"{WORDS[random.getrandbits(12)]} {WORDS[random.getrandbits(12)]}")
MOMENT = Kind("timestamptz", lambda random, ordinal: iso(micros(random, ordinal)), shown=_ISO)
_ID = ACCOUNT._replace(ddl="bigint", quoted=False)
#: the columns of the wide table, repeated
_CYCLE = {
    "count": Kind("int", lambda random, _: str(random.getrandbits(24)), quoted=False),
    "total": Kind("bigint", lambda random, _: str(random.getrandbits(48)), quoted=False),
    "account": ACCOUNT,
    "note": _NOTE,
    "amount": AMOUNT,
    "moment": MOMENT,
    "local": Kind(
        "timestamp",
        micros,
        quoted=False,
        shown="(extract(epoch from {c}) * 1000000)::bigint",
        ready=lambda m: iso(m)[:-1],
    ),
    "is_open": Kind(
        "bool", lambda random, _: ("true", "false")[random.getrandbits(1)], quoted=False, shown="{c}::text"
    ),
    "status": STATUS,
}


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The right content of one table."""

    rows: int
    md5: str

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Expected":
        ordered = sorted(rows, key=lambda row: int(row[0] or 0))
        lines = ["|".join("~" if value is None else value for value in row) for row in ordered]
        return cls(rows=len(lines), md5=hashlib.md5("\n".join(lines).encode(), usedforsecurity=False).hexdigest())


@dataclass(frozen=True)
class Table:
    """One table; the first column is its primary key, `id`."""

    name: str
    columns: dict[str, Kind]
    #: sets toast_tuple_target, so that a row is not toasted as long as it fits on a page, as `surelane doctor` advises
    is_whole: bool = False

    @property
    def ddl(self) -> str:
        columns = [f"{name} {kind.ddl}" for name, kind in self.columns.items()]
        stored = f" with (toast_tuple_target = {INLINE_BYTES})" if self.is_whole else ""
        return f"create table {self.name} ({', '.join(columns)}, primary key (id)){stored}"

    @property
    def checksum(self) -> str:
        """SQL for the number of rows and a hash over all of them, in the form of `Expected.of`."""
        shown = [f"coalesce({kind.shown.format(c=name)}::text, '~')" for name, kind in self.columns.items()]
        # one array, because a function takes at most 100 arguments
        line = f"array_to_string(array[{', '.join(shown)}], '|')"
        return f"select count(*), md5(string_agg({line}, E'\\n' order by id)) from {self.name}"

    def image(self, row: Row | None) -> str:
        """A row as JSON, for `before` or `after` of a message."""
        if row is None:
            return "null"
        if None not in row:
            return self._form % row
        fields = zip(self.columns.items(), row, strict=True)
        return "{" + ",".join([f'"{name}":{_json(kind, value)}' for (name, kind), value in fields]) + "}"

    @cached_property
    def _form(self) -> str:
        fields = [f'"{name}":"%s"' if kind.quoted else f'"{name}":%s' for name, kind in self.columns.items()]
        return "{" + ",".join(fields) + "}"

    def line(self, row: Row) -> str:
        """A row as a line of a COPY file."""
        values = zip(self.columns.values(), row, strict=True)
        return "\t".join(["\\N" if value is None else kind.ready(value) for kind, value in values]) + "\n"


_SIMPLE = {
    "id": _ID,
    "account": ACCOUNT,
    "amount": AMOUNT,
    "status": STATUS,
    "note": _NOTE,
    "updated_at": MOMENT,
}
#: mean characters of a simple row without its note
SIMPLE_BYTES = 65
#: random text that notes of a given length are cut from
TEXT = f"{Random(0).getrandbits(4 << TEXT_BITS):0{1 << TEXT_BITS}x}"


def simple(number: int) -> tuple[Table, ...]:
    """`number` tables of six columns."""
    names = ["bench"] if number == 1 else [f"bench_{ordinal:02}" for ordinal in range(number)]
    return tuple(Table(name, _SIMPLE) for name in names)


def wide(columns: int, *, is_whole: bool = False) -> Table:
    """One table of `columns` columns of all types, including the key."""
    again = zip(range(1, columns), itertools.cycle(_CYCLE.items()), strict=False)
    return Table("bench_wide", {"id": _ID, **{f"{name}_{number:02}": kind for number, (name, kind) in again}}, is_whole)


#: the table that all systems write: of the workloads `uniform` and `hot`
TABLE = simple(1)[0]


def _json(kind: Kind, value: str | None) -> str:
    if value is None:
        return "null"
    return f'"{value}"' if kind.quoted else value


@lru_cache(maxsize=16)
def _iso_seconds(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
