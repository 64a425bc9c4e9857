"""What comes from outside and tries to be SQL is a name or a value, and nothing else: against the real database."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg2 import sql
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

import tests.fix_bare_lane
from app.apply.evolution import add_columns, type_of
from app.apply.target_tables import load_table
from app.config.on_skip import OnSkip
from app.db.engine import make_engine
from app.db.prepared import end
from app.db.sql import run
from app.decode.debezium import DebeziumJson
from app.errors import SurelaneError
from app.kafka.spans import ListBatch
from tests import messages as m
from tests.commands import Ended
from tests.fix_bare_lane import BareLane, MakeBareLane
from tests.fix_target import Target
from tests.fix_topic import Sent
from tests.messages import Debezium, Message, Table
from tools.devstack.roles import READER

#: each would do harm, or fail, where it is taken for SQL, for a parameter or for a format
ATTEMPTS = (
    'x"; drop table canary; --',
    "x'; drop table canary; --",
    "'); drop table canary; --",
    '"',
    '""',
    "'",
    "\\",
    "\\'",
    "\\.",
    "\\N",
    "$$",
    "$a$ drop table canary $a$",
    "%s",
    "%(id)s",
    "%",
    "%%",
    ":name",
    "::text",
    "{0}",
    "{id}",
    "{{",
    "a b",
    "a.b",
    "*",
    "--",
    "/*",
    "x\ty",
    "x\ny",
    "x\ry",
    "select",
    "Upper",
    "ünïcödé",
    "日本",
    "\u202e",
    "x" * 63,
    "surelane_ordinal ",
    "E'\\x00'",
    "\x1b[31m",
)
#: what Postgres has no name for, or cuts
IMPOSSIBLE = (
    "",
    "\x00",
    "a\x00b",
    "x" * 64,
    "é" * 40,
    "x" * 10_000,
    "a\x1fb",
    "\ud800".encode(errors="replace").decode(),
)
CANARY = Table("canary", {"id": m.INT, "v": m.TEXT})
_LIVE = {HealthCheck.function_scoped_fixture, HealthCheck.too_slow}

_letters = st.characters(exclude_characters="\x00\x1f", exclude_categories=["Cs"])
names = st.one_of(
    st.sampled_from(ATTEMPTS),
    st.lists(st.sampled_from([*ATTEMPTS[:30], "a", "b"]), min_size=2, max_size=3).map("".join),
    st.text(_letters, min_size=1, max_size=20),
).filter(lambda name: 1 <= len(name.encode()) <= 63 and name != "canary")
values = st.one_of(st.none(), st.sampled_from(ATTEMPTS), st.text(_letters, max_size=30))


@pytest.fixture
def fuzzed(bare_lane: MakeBareLane, target: Target, monkeypatch: pytest.MonkeyPatch) -> Iterator[BareLane]:
    """A lane that takes any table, and decodes as the service does; a bystander has to be whole at the end."""

    def by_driver(sent: Sequence[Sent]) -> pa.Table:
        batches = [ListBatch(one.tp, [one.position.offset], [one.message.key], [one.message.value]) for one in sent]
        return DebeziumJson().decode(batches)

    monkeypatch.setattr(tests.fix_bare_lane, "decoded", by_driver)
    target.create(CANARY)
    target.execute("insert into canary values (1, 'alive')")
    rules = {"unknown_table": "ignore"}
    yield bare_lane({"*.*": "*.*"}, ignore_unknown=True, on_skip=OnSkip.CONTINUE, tables=rules)
    assert target.execute("select * from canary") == [(1, "alive")]


def made(target: Target, table: str, columns: Sequence[str]) -> None:
    """The table, as psycopg2 quotes its names."""
    first, *others = map(sql.Identifier, columns)
    parts = [sql.SQL("{} text primary key").format(first), *(sql.SQL("{} text").format(one) for one in others)]
    target.server.execute(
        sql.SQL("create table public.{} ({})").format(sql.Identifier(table), sql.SQL(", ").join(parts)),
        database=target.database,
    )
    target.server.execute(
        sql.SQL("alter table public.{} owner to surelane_owner").format(sql.Identifier(table)), database=target.database
    )


def rows_of(target: Target, table: str) -> list[tuple[Any, ...]]:
    statement = sql.SQL("select * from public.{} order by 1").format(sql.Identifier(table))
    return target.server.execute(statement, database=target.database)


def dropped(target: Target, table: str) -> None:
    target.server.execute(sql.SQL("drop table public.{}").format(sql.Identifier(table)), database=target.database)


@given(table=names, columns=st.lists(names, min_size=2, max_size=4, unique=True), data=st.data())
@settings(max_examples=40, suppress_health_check=_LIVE)
def test_names_and_values_of_changes(
    fuzzed: BareLane, target: Target, table: str, columns: list[str], data: st.DataObject
) -> None:
    """Whatever they are called: rows are inserted, updated, moved to another key and deleted, in that table."""
    made(target, table, columns)
    try:
        shape = Table(table, dict.fromkeys(columns, m.TEXT), key=(columns[0],))
        keys = data.draw(st.lists(values.filter(lambda one: one is not None), min_size=3, max_size=3, unique=True))
        rows = [{columns[0]: key, **{name: data.draw(values) for name in columns[1:]}} for key in keys]
        d = Debezium()
        fuzzed.apply([d.create(shape, row) for row in rows])
        assert rows_of(target, table) == _sorted(target, rows)
        changed = {**rows[0], columns[1]: data.draw(values)}
        fuzzed.apply([d.update(shape, changed), d.delete(shape, rows[1]), d.tombstone(shape, rows[1])])
        assert rows_of(target, table) == _sorted(target, [changed, rows[2]])
    finally:
        dropped(target, table)


def _sorted(target: Target, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """As Postgres sorts them, locale C."""
    return sorted((tuple(row.values()) for row in rows), key=lambda row: str(row[0]).encode())


@given(
    schema=st.sampled_from(["public", *ATTEMPTS[:6], *IMPOSSIBLE]),
    table=st.sampled_from([*ATTEMPTS, *IMPOSSIBLE]),
    column=st.sampled_from([*ATTEMPTS, *IMPOSSIBLE]),
)
@example(schema="public", table="canary", column="\x00")
@example(schema="public", table="canary", column="v\x1fid")
@example(schema="\x00", table="canary", column="v")
@settings(max_examples=60, suppress_health_check=_LIVE)
def test_names_that_no_table_has(fuzzed: BareLane, schema: str, table: str, column: str) -> None:
    """Ignored where the table is not there, else the lane stops or skips the message; never anything else."""
    value = {
        "op": "c",
        "before": None,
        "after": {"id": 2, column: "x"},
        "source": {"schema": schema, "table": table, "lsn": 1, "sequence": '["1","1"]', "ts_ms": 1},
        "ts_ms": 1,
    }
    message = Message(key=json.dumps({"id": 2}).encode(), value=json.dumps(value).encode())
    try:
        fuzzed.apply([message])
    except SurelaneError:
        fuzzed.sent += fuzzed._place([message])  # pyright: ignore[reportPrivateUsage]
        fuzzed.reconnect()


_types = st.one_of(
    st.sampled_from(
        ["INT4", "_TEXT", "NUMERIC", "VARCHAR", "BIT", "mood", "INT4 PRIMARY KEY", "TEXT DEFAULT CURRENT_USER"]
    ),
    st.sampled_from(["TEXT REFERENCES CANARY", "INT4 UNIQUE", "INT8 GENERATED ALWAYS AS IDENTITY", "TEXT NOT NULL"]),
    st.sampled_from(ATTEMPTS),
    st.text("abcdefINT4 _()[],;'\"", max_size=12),
)
_numbers = st.one_of(st.integers(-5, 2000).map(str), st.sampled_from(["1) default now(", "10,2", *ATTEMPTS]))
fields = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "int32", "bytes", "array", "x; drop table canary"])},
    optional={
        "name": st.sampled_from(
            ["org.apache.kafka.connect.data.Decimal", "io.debezium.data.Bits", "io.debezium.data.Json", "x'y"]
        ),
        "parameters": st.fixed_dictionaries(
            {},
            optional={
                "__debezium.source.column.type": _types,
                "__debezium.source.column.length": _numbers,
                "__debezium.source.column.scale": _numbers,
                "connect.decimal.precision": _numbers,
                "scale": _numbers,
                "length": _numbers,
            },
        ),
        "items": st.just({"type": "string"}),
    },
)


@given(name=names, field=fields)
@example(
    name="w", field={"type": "string", "parameters": {"__debezium.source.column.type": "TEXT DEFAULT CURRENT_USER"}}
)
@example(name="w", field={"type": "string", "parameters": {"__debezium.source.column.type": "TEXT REFERENCES CANARY"}})
@settings(max_examples=150, suppress_health_check=_LIVE)
def test_columns_that_are_added(ddl: Connection, name: str, field: dict[str, Any]) -> None:
    """Either Postgres refuses the type, or there is a plain column more: no default, no constraint, nothing else."""
    if "scale" not in field.get("parameters", {}) and field.get("name", "").endswith("Decimal"):
        field = {**field, "parameters": {"scale": "0", **field.get("parameters", {})}}
    kind = type_of(field)
    if kind is None:
        return
    with ddl.begin() as transaction:
        table = load_table(ddl, "public", "canary")
        assert table is not None
        try:
            run(ddl, add_columns(table, {name: kind}))
        except DBAPIError:
            transaction.rollback()
            return
        added = ddl.exec_driver_sql(
            "select attname, attnotnull, atthasdef, attidentity::text, attgenerated::text from pg_attribute"
            " where attrelid = 'canary'::regclass and attnum > 2"
        ).all()
        constraints = ddl.exec_driver_sql(
            "select count(*) from pg_constraint where conrelid = 'canary'::regclass and contype <> 'n'"
        ).scalar_one()
        transaction.rollback()
    assert added == [] if name in ("id", "v") else added == [(name, False, False, "", "")]
    assert constraints == 1, "the primary key"


@pytest.fixture
def ddl(target: Target) -> Iterator[Connection]:
    target.create(CANARY)
    target.give("canary")
    with target.as_lane.connect() as connection:
        yield connection


@given(gid=st.one_of(st.sampled_from(ATTEMPTS), st.text(_letters, min_size=1, max_size=40)), commit=st.booleans())
@settings(max_examples=40, suppress_health_check=_LIVE)
def test_names_of_prepared_transactions(target: Target, ddl: Connection, gid: str, commit: bool) -> None:
    """Other programs' too, whatever they are called."""
    target.server.execute("delete from canary", database=target.database)
    target.server.execute(
        "begin; insert into canary values (7, 'x'); prepare transaction %s", gid, database=target.database
    )
    # prepared by the superuser, so ended by it: the statement is ours
    engine = make_engine(target.server.url(target.database).replace("postgresql:", "postgresql+psycopg2:"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        end(connection, gid, commit=commit)
    assert target.execute("select id from canary") == ([(7,)] if commit else [])
    assert target.prepared() == []


def test_verbs_over_a_table_with_such_names(
    target: Target, elsewhere: Target, surelane: Callable[..., Ended], tmp_path: Any
) -> None:
    """Compared, inspected and dumped by their names."""
    for side in (target, elsewhere):
        for number, table in enumerate(ATTEMPTS):
            made(side, table, [ATTEMPTS[number - 1], ATTEMPTS[number - 2]])
            statement = sql.SQL("insert into public.{} values ({}, null)")
            statement = statement.format(sql.Identifier(table), sql.Literal(table))
            side.server.execute(statement, database=side.database)
    raw = {
        "lane": target.lane,
        "source": {"bootstrap_servers": "127.0.0.1:1", "topics": ["none"]},
        "target": target.section,
        "snapshots": {"directory": str(tmp_path / "snapshots")},
        "metrics": {"port": 0},
    }
    file = tmp_path / "surelane.yaml"
    file.write_text(yaml.safe_dump(raw))
    same = surelane("verify", "--against", elsewhere.url_as(READER), "--json", "--config", str(file))
    assert same.status == 0, same.out + same.err
    victim = ATTEMPTS[0]
    statement = sql.SQL("delete from public.{}").format(sql.Identifier(victim))
    elsewhere.server.execute(statement, database=elsewhere.database)
    other = surelane("verify", "--against", elsewhere.url_as(READER), "--json", "--config", str(file))
    assert other.status == 16, other.out + other.err
    assert victim in json.dumps(other.json, ensure_ascii=False).replace('\\"', '"')
