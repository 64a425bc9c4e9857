"""Generated schemas and changes: strategies of hypothesis, as SQL for a source and for a target.

A history is 1 to 3 tables and what happens to them, in batches of transactions. Nothing here knows which changes the
constraints allow: every statement has a savepoint, and what the source refuses is taken back (`Transaction`).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

#: what both databases need before the tables
PRELUDE = (
    "create extension if not exists citext",
    "create type mood as enum ('sad', 'so, so', 'it''s \"fine\"')",
)
#: bytes of a name that Postgres keeps whole, a number behind it included
_LONGEST_NAME = 50
_RESERVED = ("select", "User", "order", "table", "op", "before", "after", "payload", "schema", "source", "ts_ms")
_NAME_CHARACTERS = "abzAZ019_ .,;:%$&?/\\'\"`()[]{}<>=+-*#@!|~^äß\u0130\u00a0中🦀"
_TEXT_CHARACTERS = "abN01 ,;:%$\\'\"`(){}[]<>=-/\t\n\r\v\x01\x1f\x7fäß\u00a0\u200b中🦀"
_number = itertools.count(1)


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Type:
    """A type of Postgres, with values as SQL."""

    sql: str
    values: st.SearchStrategy[str]
    #: of one that is stored outside of its row; {seed} makes it unlike others
    large: str | None = None
    #: whether values of unlike text may be equal, see docs/EVENTS.md
    alike: bool = False


def _names() -> st.SearchStrategy[str]:
    odd = st.text(_NAME_CHARACTERS, min_size=1, max_size=8).filter(lambda name: len(name.encode()) <= _LONGEST_NAME)
    return st.one_of(st.sampled_from("abcdefgh"), st.sampled_from(_RESERVED), odd)


def _integers(bits: int) -> st.SearchStrategy[str]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).map(lambda number: f"({number})")


def _among(*values: str) -> st.SearchStrategy[str]:
    return st.sampled_from([literal(value) for value in values])


_WORDS = st.text(_TEXT_CHARACTERS, max_size=6)
_MD5 = "(select string_agg(md5('{seed}' || i), '') from generate_series(1, 150) i)"
_ARRAY = "array[" + _MD5 + ", null, 'x']"
TEXT = Type("text", _WORDS.map(literal), _MD5)
_TYPES = (
    Type("smallint", _integers(16)),
    Type("integer", _integers(32)),
    Type("bigint", _integers(64)),
    Type("numeric", _among("0", "0.00", "1", "1.0", "1.00", "-123456789012345678901.5", "1e30", "NaN"), alike=True),
    Type("numeric(12,2)", _among("0", "-0.01", "9999999999.99", "100")),
    Type("double precision", _among("0", "-0", "0.1", "1e300", "5e-324", "NaN", "-Infinity"), alike=True),
    TEXT,
    Type("varchar(12)", _WORDS.map(literal)),
    Type("char(4)", st.text("ab\\'ä ", max_size=4).map(literal)),
    Type("citext", _among("a", "A", "b", "", "ä", "Ä"), alike=True),
    Type("bytea", st.binary(max_size=5).map(lambda value: f"'\\x{value.hex()}'"), f"decode({_MD5}, 'hex')"),
    Type("boolean", st.sampled_from(["true", "false"])),
    Type("uuid", st.uuids().map(lambda value: literal(str(value)))),
    Type("date", _among("2024-02-29", "1969-12-31", "0001-01-01", "9999-12-31", "infinity", "0044-03-15 BC")),
    Type("timestamp", _among("2024-02-29 12:34:56.000001", "1969-12-31 23:59:59.999999", "-infinity")),
    Type("timestamptz", _among("2024-02-29 12:34:56.5+05:30", "1969-12-31 23:59:59.999999Z", "10000-01-01Z")),
    Type("interval", _among("0", "1 mon", "30 days", "-1 year 2 mons -3 days 04:05:06.5")),
    Type("mood", _among("sad", "so, so", 'it\'s "fine"')),
    Type("jsonb", _among("null", '{"a": [1.50, null, "\\"\\\\"]}', '"ä\\n"', "1"), f"to_jsonb({_MD5})"),
    Type("int[]", _among("{}", "{1,NULL,-3}", "{2147483647}")),
    Type(
        "text[]",
        st.lists(st.one_of(_WORDS.map(literal), st.just("null")), max_size=3).map(
            lambda items: f"array[{', '.join(items)}]::text[]"
        ),
        _ARRAY,
    ),
)
#: what a primary key is made of
_KEY_TYPES = [one for one in _TYPES if one.sql not in ("jsonb", "int[]", "text[]", "interval")]
#: those of most tables: whole numbers that repeat, texts, and types that call values of unlike text equal
_USUAL_KEY_TYPES = [
    Type("integer", st.integers(1, 3).map(str)),
    Type("bigint", st.integers(1, 3).map(str)),
    *(one for one in _TYPES if one.sql in ("text", "numeric", "citext")),
]


@dataclass(frozen=True)
class Column:
    """A column, and the few values that it ever has."""

    name: str
    type: Type
    values: Sequence[str]
    not_null: bool = False
    #: more DDL
    rest: str = ""

    @property
    def sql(self) -> str:
        """In CREATE TABLE."""
        return f"{quoted(self.name)} {self.type.sql}{' not null' if self.not_null else ''}{self.rest}"


@dataclass(frozen=True)
class Table:
    """A table of both databases."""

    name: str
    key: Sequence[Column]
    others: Sequence[Column]
    #: unique and foreign keys
    constraints: Sequence[str]
    #: alter table ... replica identity
    identity: str
    #: computed ones, which no statement writes
    computed: Sequence[Column]
    #: order of the columns at the target
    order: Sequence[int]

    @property
    def columns(self) -> list[Column]:
        """All of them."""
        return [*self.key, *self.others, *self.computed]

    @property
    def at_the_source(self) -> list[str]:
        """DDL."""
        return [self._create(self.columns), f"alter table {quoted(self.name)} replica identity {self.identity}"]

    @property
    def at_the_target(self) -> str:
        """DDL."""
        return self._create([self.columns[at] for at in self.order])

    @property
    def content(self) -> str:
        """A query for every row as text."""
        columns = ", ".join(quoted(column.name) for column in self.columns)
        return f"select row({columns})::text from {quoted(self.name)} order by 1"

    def _create(self, columns: Sequence[Column]) -> str:
        key = f"primary key ({_list(self.key)})"
        return f"create table {quoted(self.name)} ({', '.join([*(c.sql for c in columns), key, *self.constraints])})"


@dataclass(frozen=True)
class Transaction:
    """Statements, each to be taken back by itself if it is refused."""

    statements: Sequence[str]
    #: how it ends
    commit: bool


@dataclass(frozen=True)
class History:
    """Tables, and what happens to them: the transactions of a batch arrive in one epoch."""

    tables: Sequence[Table]
    batches: Sequence[Sequence[Transaction]]

    @property
    def script(self) -> str:
        """What reproduces it, for psql."""
        lines = ["-- both", *PRELUDE, "-- target", *(table.at_the_target for table in self.tables), "-- source"]
        lines += ["\\set ON_ERROR_ROLLBACK on"]
        lines += [line for table in self.tables for line in table.at_the_source]
        for batch in self.batches:
            lines.append("-- one epoch:")
            for one in batch:
                lines += ["begin", *one.statements, "commit" if one.commit else "rollback"]
        return "\n".join(line if line.startswith(("--", "\\")) else f"{line};" for line in lines)


def _list(columns: Sequence[Column]) -> str:
    return ", ".join(quoted(column.name) for column in columns)


@st.composite
def _columns(draw: st.DrawFn, names: Sequence[str], types: Sequence[Type]) -> list[Column]:
    found: list[Column] = []
    for name in names:
        kind = draw(st.sampled_from(types))
        found.append(Column(name, kind, draw(st.lists(kind.values, min_size=2, max_size=3))))
    return found


@st.composite
def _tables(draw: st.DrawFn, before: Sequence[Table]) -> Table:
    # the connector ends where names of columns differ by case only
    names = draw(st.lists(_names(), min_size=2, max_size=10, unique_by=str.lower))
    many_keys = min(draw(st.sampled_from([1, 1, 1, 2, 3])), len(names) - 1)
    key = [
        Column(one.name, one.type, one.values, not_null=True)
        for one in draw(
            _columns(names[:many_keys], draw(st.sampled_from([_USUAL_KEY_TYPES, _USUAL_KEY_TYPES, _KEY_TYPES])))
        )
    ]
    others = draw(_columns(names[many_keys:], _TYPES))
    others = [Column(one.name, one.type, one.values, not_null=draw(st.booleans())) for one in others]
    name = draw(_names()).replace('"', "'") + str(next(_number))  # the connector ends at a table with a quote
    constraints, others = draw(_constraints(name, key, others, before))
    computed: list[Column] = []
    if draw(st.integers(0, 5)) == 5:
        rest = f" generated always as (md5({quoted(key[0].name)}::text)) stored"
        computed = [Column("computed", TEXT, (), rest=rest)] if key[0].type.sql in ("integer", "text") else []
    order = draw(st.permutations(range(len(key) + len(others) + len(computed))))
    identity = draw(st.sampled_from(["default", "default", "full"]))
    return Table(name, key, others, constraints, identity, computed, order)


@st.composite
def _constraints(
    draw: st.DrawFn, name: str, key: Sequence[Column], others: list[Column], before: Sequence[Table]
) -> tuple[list[str], list[Column]]:
    """Unique and foreign keys, and the columns, to which those of a foreign key may be added."""
    found: list[str] = []
    waiting = st.sampled_from(["", "", " deferrable", " deferrable initially deferred"])
    plain = [one for one in others if one.type.large is None]
    if plain and draw(st.booleans()):
        found.append(f"unique ({_list([draw(st.sampled_from(plain))])}){draw(waiting)}")
    parents = [(one.name, one.key) for one in before] + [(name, key)]
    parents = [one for one in parents if not any(column.type.alike for column in one[1])]
    if parents and draw(st.sampled_from([False, True, True] if before else [False, False, True])):
        parent, columns = draw(st.sampled_from(parents))
        held = [Column(f"ref {at}", one.type, one.values) for at, one in enumerate(columns)]
        wait = draw(waiting)
        actions = draw(st.sampled_from(["", "", " on delete cascade", " on delete set null", " on delete restrict"]))
        # of a key that changes the delete comes first: a key that does not wait may refuse what the source cascaded
        if actions == "" and "deferred" in wait:
            actions = draw(st.sampled_from(["", " on update cascade"]))
        found.append(f"foreign key ({_list(held)}) references {quoted(parent)}{actions}{wait}")
        others = [*others, *held]
    return found, others


class _Changes:
    """Statements on one table, of few rows and few values."""

    def __init__(self, draw: st.DrawFn, table: Table) -> None:
        self._draw, self._table, self._name = draw, table, quoted(table.name)

    def statements(self) -> list[str]:
        """One change, or several that belong together."""
        kinds = (
            *(self.insert, self.insert, self.insert, self._upsert, self._upsert, self._update, self._update),
            *(self._rekey, self._rekey, self._delete, self._delete, self._swap, self._swap),
            *(self._update_all, self._rekey_all, self._truncate),
        )
        return self._draw(st.sampled_from(kinds))()

    def _key(self) -> dict[str, str]:
        return {one.name: self._draw(st.sampled_from(one.values)) for one in self._table.key}

    def _value(self, column: Column) -> str:
        large = column.type.large
        if not column.not_null and self._draw(st.integers(0, 4)) == 4:
            return "null"
        if large is not None and self._draw(st.booleans()):
            return large.replace("{seed}", str(self._draw(st.integers(0, 2))))
        return self._draw(st.sampled_from(column.values))

    def _values(self, columns: Sequence[Column]) -> dict[str, str]:
        return {one.name: self._value(one) for one in columns}

    def _some(self) -> list[Column]:
        others = self._table.others
        return self._draw(st.lists(st.sampled_from(others), min_size=1, max_size=3, unique_by=lambda one: one.name))

    def insert(self) -> list[str]:
        """One row."""
        row = self._key() | self._values(self._table.others)
        names = ", ".join(map(quoted, row))
        return [f"insert into {self._name} ({names}) values ({', '.join(row.values())})"]

    def _upsert(self) -> list[str]:
        (insert,) = self.insert()
        return [f"{insert} on conflict ({_list(self._table.key)}) do update set {_set(self._values(self._some()))}"]

    def _update(self) -> list[str]:
        return [f"update {self._name} set {_set(self._values(self._some()))} where {_where(self._key())}"]

    def _update_all(self) -> list[str]:
        return [f"update {self._name} set {_set(self._values(self._some()))}"]

    def _new_key(self) -> dict[str, str]:
        """A new key repeats every large value: a message of Debezium that leaves one out does not identify it."""
        large = [one for one in self._table.others if one.type.large is not None and self._table.identity != "full"]
        return self._key() | self._values(large)

    def _rekey(self) -> list[str]:
        return [f"update {self._name} set {_set(self._new_key())} where {_where(self._key())}"]

    def _rekey_all(self) -> list[str]:
        column = self._table.key[0]
        if column.type.sql not in ("smallint", "integer", "bigint", "numeric"):
            return self._rekey()
        moved = {column.name: f"{quoted(column.name)} + 1"}
        return [f"update {self._name} set {_set(self._new_key() | moved)}"]

    def _delete(self) -> list[str]:
        return [f"delete from {self._name} where {_where(self._key())}"]

    def _swap(self) -> list[str]:
        """Two rows change places: in one statement, and in three."""
        column = self._draw(st.sampled_from([*self._table.key[:1], *self._table.others]))
        if column.type.large is not None:
            return self._update()
        name, (one, other) = quoted(column.name), (self._draw(st.sampled_from(column.values)) for _ in "ab")
        third = self._draw(st.sampled_from(column.values))
        if column in self._table.key:
            return [self._moved(name, a, b) for a, b in ((one, third), (other, one), (third, other))]
        at_once = f"case when {name} = {one} then {other} else {one} end"
        return [
            f"update {self._name} set {name} = ({at_once})::{column.type.sql} where {name} in ({one}, {other})",
            *(self._moved(name, a, b) for a, b in ((one, third), (other, one), (third, other))),
        ]

    def _moved(self, name: str, one: str, other: str) -> str:
        """The rows with one value get another; what is large goes with a new key."""
        values = self._new_key() if name in map(quoted, (column.name for column in self._table.key)) else {}
        kept = {column: value for column, value in values.items() if column not in [k.name for k in self._table.key]}
        return f"update {self._name} set {', '.join([f'{name} = {other}', *_pairs(kept)])} where {name} = {one}"

    def _truncate(self) -> list[str]:
        return [f"truncate {self._name} cascade"] if self._draw(st.integers(0, 2)) == 2 else self._delete()


def _pairs(values: dict[str, str]) -> list[str]:
    return [f"{quoted(name)} = {value}" for name, value in values.items()]


def _set(values: dict[str, str]) -> str:
    return ", ".join(_pairs(values))


def _where(values: dict[str, str]) -> str:
    return " and ".join(_pairs(values))


@st.composite
def _transactions(draw: st.DrawFn, tables: Sequence[Table]) -> Transaction:
    statements: list[str] = []
    for _ in range(draw(st.integers(2, 6))):
        statements += _Changes(draw, draw(st.sampled_from(tables))).statements()
    return Transaction(statements, commit=draw(st.integers(0, 7)) != 7)


@st.composite
def _first(draw: st.DrawFn, tables: Sequence[Table]) -> Transaction:
    """Rows for what follows, parents first."""
    rows = [_Changes(draw, table).insert() for table in tables for _ in range(draw(st.integers(1, 4)))]
    return Transaction([statement for row in rows for statement in row], commit=True)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Everything."""
    tables: list[Table] = []
    for _ in range(draw(st.integers(1, 3))):
        tables.append(draw(_tables(tables)))
    batches = draw(st.lists(st.lists(_transactions(tables), min_size=2, max_size=6), min_size=1, max_size=2))
    return History(tables, [[draw(_first(tables)), *batches[0]], *batches[1:]])
