"""SQL for some tables: the target holds what the query over the source's table holds; a row it fails for is poison."""

import pickle
import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from app.config.settings import CommitMode, TableSql
from app.decode import scan_loader as scanner
from app.decode.debezium import DebeziumJson
from app.decode.decoding import Decoding
from app.errors import ConfigInvalid, TargetMismatch
from app.kafka.spans import ListBatch
from app.model.offsets import TopicPartition
from app.model.row_layout import Layout, RowKind
from app.transform.sql import Sql
from app.transform.sql.analysis import rules_of
from tests.fix_decode import TOPIC
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import BIGINT, LEFT_OUT, TEXT, Debezium, Message, Table
from tests.oracle import Reader
from tests.poison import Expected, check, row, send

ORDERS = Table("orders", {"id": BIGINT, "state": TEXT, "Note": TEXT})
OTHER = Table("other", {"id": BIGINT, "v": TEXT})
QUERY = TableSql(
    select="id as number, upper(state) as state, concat(coalesce(Note, ''), '\\t!') as remark", where="state <> 'draft'"
)


def _decoded(spark: SparkSession, sql: dict[str, TableSql], messages: list[Message]) -> list[tuple[Layout, str]]:
    """By the driver's decoder in Python, and by its compiled code, which have to say the same."""
    found: list[list[tuple[Layout, str]]] = []
    for decoder in (DebeziumJson(worth_compiling=None), DebeziumJson(scanner=scanner.loading().result())):
        rows = _rewritten(decoder, spark, sql, messages)
        layouts, lines = rows["layout"].to_pylist(), rows["line"].to_pylist()
        found.append([(Layout.parse(text), line) for text, line in zip(layouts, lines, strict=True)])
    assert found[0] == found[1]
    return found[0]


def _rewritten(
    decoder: DebeziumJson, spark: SparkSession, sql: dict[str, TableSql], messages: list[Message]
) -> pa.Table:
    """As a stage process does, which gets the rules by pickle."""
    rules = pickle.loads(pickle.dumps(rules_of(spark, sql)))  # its own
    keys, values = [one.key for one in messages], [one.value for one in messages]
    batch = ListBatch(TopicPartition(TOPIC, 0), list(range(len(messages))), keys, values)
    return Decoding(decoder, sql=Sql(rules, decoder.gone)).decoded([batch])


def _order(number: int, state: str | None, note: str | None = None) -> dict[str, object]:
    return {"id": number, "state": state, "Note": note}


@pytest.mark.parametrize("envelope", [False, True])
def test_rows_are_chosen_and_computed(spark: SparkSession, envelope: bool) -> None:
    source = Debezium(envelope=envelope)
    found = _decoded(
        spark,
        {"public.ord*": QUERY},
        [
            source.create(ORDERS, _order(1, "open", "a\tb\\")),
            source.create(ORDERS, _order(2, "draft")),
            source.update(ORDERS, _order(3, None)),
            source.delete(ORDERS, _order(4, "open")),
            source.create(OTHER, {"id": 5, "v": None}),
            source.tombstone(ORDERS, _order(4, "open")),
        ],
    )
    names = ("number", "state", "remark")
    assert [(layout.kind, layout.columns, line) for layout, line in found] == [
        (RowKind.UPSERT, names, "1\tOPEN\ta\\tb\\\\\\t!\n"),
        (RowKind.DELETE, ("number", "remark"), "2\t\\t!\n"),
        (RowKind.DELETE, ("number", "remark"), "3\t\\t!\n"),
        (RowKind.DELETE, ("number", "remark"), "4\t\\t!\n"),
        (RowKind.UPSERT, ("id", "v"), "5\t\\N\n"),
        (RowKind.FILTERED, (), ""),
    ]


def test_a_star_is_the_row_and_a_later_column_replaces_one_of_it(spark: SparkSession) -> None:
    source = Debezium(envelope=False)
    sql = {
        "*.orders": TableSql(select="*, lower(state) as state, length(state) as size"),
        "*.*": TableSql(where="false"),
    }
    found = _decoded(
        spark,
        sql,
        [
            source.create(ORDERS, _order(1, "Open", "x")),
            source.delete(ORDERS, _order(1, None)),
            source.read(OTHER, {"id": 2, "v": ""}),
        ],
    )
    assert [(layout.kind, dict(zip(layout.columns, line[:-1].split("\t"), strict=True))) for layout, line in found] == [
        (RowKind.UPSERT, {"id": "1", "Note": "x", "state": "open", "size": "4"}),
        (RowKind.DELETE, {"id": "1"}),
        (RowKind.DELETE, {"id": "2"}),
    ]


def test_a_row_without_key_that_was_never_there_is_left_out(spark: SparkSession) -> None:
    source = Debezium(envelope=False)
    sql = {"public.orders": TableSql(where="state = 'open'")}
    inserted, updated = (source.keyless(op, ORDERS, _order(1, "draft")) for op in "cu")
    assert [layout.kind for layout, _ in _decoded(spark, sql, [inserted, updated])] == [
        RowKind.FILTERED,
        RowKind.KEYLESS,
    ]


def test_a_large_value_that_an_update_leaves_out_is_not_computed_with(spark: SparkSession) -> None:
    source = Debezium(envelope=False)
    update = source.update(ORDERS, {"id": 1, "state": "open", "Note": LEFT_OUT})
    found = _decoded(spark, {"public.orders": QUERY}, [update])
    assert [(layout.kind, layout.columns) for layout, _ in found] == [(RowKind.UNFIT, ("Note",))]
    found = _decoded(spark, {"public.orders": TableSql(where="state = 'open'")}, [update])
    assert [sorted(line[:-1].split("\t")) for _, line in found] == [["1", "__debezium_unavailable_value", "open"]]


def test_names_that_spark_knows_as_functions_are_columns(spark: SparkSession) -> None:
    table = Table("orders", {"id": BIGINT, "user": TEXT, "current_date": TEXT})
    sql = TableSql(select="id, user as owner, concat(current_date, `user`) as both", where="user = 'bob'")
    message = Debezium(envelope=False).create(table, {"id": 1, "user": "bob", "current_date": "today"})
    found = _decoded(spark, {"public.orders": sql}, [message])
    assert [(layout.kind, line) for layout, line in found] == [(RowKind.UPSERT, "1\tbob\ttodaybob\n")]


def test_where_is_asked_for_the_tables_own_rows_only(spark: SparkSession) -> None:
    source = Debezium(envelope=False)
    sql = {"public.orders": TableSql(where="10 / coalesce(cast(Note as int), 0) > 1")}
    messages = [
        source.create(OTHER, {"id": 5, "v": None}),
        source.delete(ORDERS, _order(4, "open")),
        source.tombstone(ORDERS, _order(4, "open")),
        source.create(ORDERS, _order(1, "open", "2")),
    ]
    found = _decoded(spark, sql, messages)
    assert [layout.kind for layout, _ in found] == [RowKind.UPSERT, RowKind.DELETE, RowKind.FILTERED, RowKind.UPSERT]


def test_a_broken_message_stays_one(spark: SparkSession) -> None:
    """It names no row that could be deleted."""
    sql = {"public.orders": TableSql(where="state = 'open'")}
    source = b'"source":{"schema":"public","table":"orders"}'
    messages = [
        Message(key=b'{"id":1}', value=b'{"op":"u","after":null,%s}' % source),
        Message(key=b'{"id":1}', value=b'{"op":"c","after":{},%s}' % source),
        Message(key=b'{"id":"\xff"}', value=b'{"op":"u","after":{"id":1,"state":"x"},%s}' % source),
    ]
    assert {layout.kind for layout, _ in _decoded(spark, sql, messages)} == {RowKind.MALFORMED}


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        (TableSql(select="id,, state"), "PARSE"),
        (TableSql(select="* except (state)"), "except"),
        (TableSql(select="count(*) as n"), "GROUP_BY"),
        (TableSql(select="row_number() over (order by id) as n"), "windows"),
        (TableSql(select="(select 1) as n"), "scalarsubquery"),
        (TableSql(where="rand() < 0.5"), "where: rand is not known here"),
        (TableSql(select="current_timestamp() as now"), "current_timestamp"),
        (TableSql(select="cast(id as timestamp) as at"), "cast from string to timestamp is not known here"),
        (TableSql(where="state like Note"), "made of columns"),
        (TableSql(where="state like 'a\\\\b'"), "has to stand before"),
        (TableSql(where="state rlike '(?i)open'"), "(?:"),
        (TableSql(where="state rlike 'a\\\\b'"), "is not known here"),
        (TableSql(select="regexp_replace(state, '(a)', '$1') as s"), "regexp_replace is known without"),
        (TableSql(select="regexp_replace(state, 'x*', '-') as s"), "regexp_replace of nothing"),
        (TableSql(select="round(cast(id as int), -1) as n"), "round is known with 0 to 38 places"),
        (TableSql(select="md5(id) as n, cast(id as binary) as b"), "b is of type binary"),
        (TableSql(select="no_such_function(id) as n"), "no_such_function"),
        (TableSql(select="o.id as n"), "o"),
        (TableSql(select="split(state, ',') as parts"), "parts: split is not known here"),
        (TableSql(where="concat(id, 'x')"), "where"),
        (TableSql(where="state = "), "PARSE"),
    ],
)
def test_what_is_no_sql_is_a_fault_of_the_configuration(spark: SparkSession, sql: TableSql, problem: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        rules_of(spark, {"public.orders": sql})
    assert "sql: public.orders: " in caught.value.message
    assert problem in caught.value.message


@pytest.mark.parametrize("mode", list(CommitMode), ids=lambda mode: mode.value)
def test_the_target_is_what_the_query_over_the_source_is(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    """Rows come and go, and their state with them: in and out of the query's result."""
    target.execute("create table orders (number bigint primary key, state text, remark text)")
    dice, source = random.Random(11), Debezium(envelope=mode is CommitMode.LEDGER)
    rows: dict[int, str] = {}
    messages: list[Message] = []
    for _ in range(600):
        number, state = dice.randrange(60), dice.choice(["open", "draft", "sent"])
        if number in rows and dice.random() < 0.2:
            messages.append(source.delete(ORDERS, _order(number, rows.pop(number))))
        else:
            op = source.update if number in rows else source.create
            messages.append(op(ORDERS, _order(number, state)))
            rows[number] = state
    topic.send(messages)
    sql = {"public.orders": {"select": QUERY.select, "where": QUERY.where}}
    lane(mode, epoch={"max_messages": 100}, sql=sql).run_until_caught_up()
    expected = sorted((number, state.upper(), "\t!") for number, state in rows.items() if state != "draft")
    assert target.execute("select number, state, remark from orders order by number") == expected
    assert target.ledger_sum().consumed == len(messages)


@pytest.mark.parametrize("mode", list(CommitMode), ids=lambda mode: mode.value)
def test_a_row_that_the_sql_fails_for_is_poison(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    """It is found, and the others arrive. Its words are those of a broker that is away, or has lost messages."""
    target.execute("create table flat (id int primary key, v text)")
    bad = [row(1000, "org.apache.kafka.common.errors.TimeoutException"), row(1001, "Some data may have been lost")]
    messages = [row(number, str(number)) for number in range(100)]
    messages.insert(40, bad[0])
    messages.insert(90, bad[1])
    offsets = send(topic, messages, bad)
    made = lane(mode, epoch={"max_messages": 64}, sql={"public.flat": {"select": "id, cast(v as int) as v"}})
    with Reader(target, topic) as reader:
        made.run_until_caught_up()
        expected = {offset: (message, Expected(3, None, "transform")) for offset, message in offsets.items()}
        check(made, target, topic, expected, reader)


def test_a_name_that_the_message_has_not_stops_the_lane(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.execute("create table flat (id int primary key, v text)")
    topic.send([row(1)])
    made = lane("two-phase", sql={"public.flat": {"where": "V <> 'x' and nothing > 1"}})
    with pytest.raises(TargetMismatch, match="does not have V, nothing, which the SQL for that table names"):
        made.run_until_caught_up()
    assert target.execute("select count(*) from flat") == [(0,)]


def test_what_is_no_sql_stops_the_start(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.execute("create table flat (id int primary key, v text)")
    topic.send([row(1)])
    made = lane("ledger", sql={"public.flat": {"where": "id >"}})
    with pytest.raises(ConfigInvalid, match=r"sql: public\.flat: "):
        made.run_until_caught_up()
