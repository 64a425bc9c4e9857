"""A message that a query fails for: it is left out where rows are computed one by one, else the query stops."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.config.settings import CommitMode
from app.errors import BadMessage, ConfigInvalid, ExitStatus, TargetMismatch, Unattributed
from tests import messages as m
from tests.commands import called, command
from tests.fix_lane import MODES, MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message, Table
from tests.queries import with_options
from tests.waiting import eventually

FLAT = Table("flat", {"id": m.BIGINT, "v": m.BIGINT})
SHARES = Table("shares", {"id": m.BIGINT, "share": m.BIGINT}, schema="reports")
ROWS = {
    "changes": ["public.flat"],
    "sql": "select after.id as id, 100 div after.v as share from changes_of_flat where op = 'c'",
    "table": "reports.shares",
}
SUMS = {**ROWS, "sql": "select max(after.id) as id, sum(100 div after.v) as share from changes_of_flat where op = 'c'"}


def dies(changes: DataFrame) -> DataFrame:
    """Python that ends its process for a row."""

    def share(v: int) -> int:
        if not v:
            os._exit(3)
        return 100 // v

    return changes.where("op = 'c'").select("after.id", sf.udf(share, "bigint")("after.v").alias("share"))


@pytest.fixture(autouse=True)
def options(spark: SparkSession) -> Iterator[None]:
    """Those of a query's own session."""
    yield from with_options(spark)


@pytest.fixture
def prepared(target: Target) -> None:
    """The tables."""
    target.create(FLAT)
    target.create_schema("reports")
    target.create(SHARES)


def _messages(count: int, bad: Mapping[int, bytes | None]) -> list[Message]:
    """Rows of FLAT; the value of each bad one by its number, None: a row whose share cannot be computed."""
    debezium, made = Debezium(), list[Message]()
    for number in range(count):
        row = {"id": number, "v": 0 if number in bad else number + 1}
        message = debezium.create(FLAT, row)
        value = bad.get(number)
        made.append(message if value is None else Message(key=message.key, value=value))
    return made


def _shares(count: int, bad: Mapping[int, object]) -> list[tuple[int, int]]:
    return [(number, 100 // (number + 1)) for number in range(count) if number not in bad]


def _found(target: Target) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in target.execute("select id, share from reports.shares"))


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("mode", MODES)
def test_a_row_and_a_message_that_is_no_json(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    bad = {7: None, 31: b"{no json"}
    topic.send(_messages(60, bad))
    made = lane(mode, queries={"shares": ROWS}).of_query("shares")
    made.run_until_caught_up()
    assert _found(target) == _shares(60, bad)
    kept = target.execute(
        'select "offset", state from surelane.quarantine where lane = :lane order by 1', lane=made.name
    )
    assert [tuple(row) for row in kept] == [(7, "quarantined"), (31, "quarantined")]
    counted = target.ledger_sum(made.name)
    assert (counted.consumed, counted.applied, counted.quarantined) == (60, 58, 2)
    assert target.execute("select from surelane.suspect where lane = :lane", lane=made.name) == []
    assert target.prepared() == []
    topic.send(_messages(61, {})[60:])
    made.run_until_caught_up()
    assert _found(target) == _shares(61, bad)


@pytest.mark.usefixtures("prepared")
def test_a_row_that_ends_its_python(lane: MakeLane, target: Target, topic: Topic) -> None:
    topic.send(_messages(30, {11: None}))
    query = {**ROWS, "sql": None, "function": f"{__name__}:dies"}
    made = lane(CommitMode.TWO_PHASE, queries={"shares": query}).of_query("shares")
    made.run_until_caught_up()
    assert _found(target) == _shares(30, {11: None})
    assert target.ledger_sum(made.name).quarantined == 1
    listed = called(made, "quarantine", "list", "--query", "shares")
    assert len(listed["entries"]) == 1
    refused = command(made, "quarantine", "release", "--query", "shares", "--all")
    assert refused.status == ExitStatus.REFUSED
    assert "state rebuild shares" in refused.err


@pytest.mark.usefixtures("prepared")
def test_an_aggregate_stops(lane: MakeLane, target: Target, topic: Topic) -> None:
    """With the span, and the runbook's name; a message that cannot be read is found there, too. With SQL that takes the
    message the same state goes on."""
    topic.send(_messages(20, {5: b"{no json"}))
    made = lane(CommitMode.TWO_PHASE, queries={"shares": SUMS}).of_query("shares")
    made.run_until_caught_up()
    assert target.ledger_sum(made.name).quarantined == 1
    before = _found(target)
    topic.send(_messages(10, {3: None}))
    with pytest.raises(Unattributed, match=r"from .*@20 to .*@30") as stopped:
        made.run_until_caught_up()
    assert 'epoch-fails.md, "A query that cannot be computed"' in str(stopped.value)
    assert _found(target) == before
    assert target.prepared() == []
    mended = SUMS["sql"].replace("after.v", "nullif(after.v, 0)")
    made.changed(queries={"shares": {**SUMS, "sql": mended}}).of_query("shares").run_until_caught_up()
    ((newest, sum_before),) = before
    assert _found(target) == [(newest, sum_before + sum(share for _, share in _shares(10, {3: None})))]


@pytest.mark.usefixtures("prepared")
def test_on_skip_stop(lane: MakeLane, target: Target, topic: Topic) -> None:
    topic.send(_messages(10, {4: None}))
    made = lane(CommitMode.LEDGER, queries={"shares": ROWS}, guard={"on_skip": "stop"}).of_query("shares")
    with pytest.raises(BadMessage, match="@4"):
        made.run_until_caught_up()
    assert _found(target) == []


@pytest.mark.costly(4)
@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"sql": "select after.id as id, nothing from changes_of_flat"}, ConfigInvalid, "nothing"),
        ({"sql": "select from"}, ConfigInvalid, "shares"),
        ({"sql": "select after as id, 1 as share from changes_of_flat"}, ConfigInvalid, "type struct"),
        ({"sql": "select after.id as id, 1 as other from changes_of_flat"}, TargetMismatch, "no column other"),
        ({"sql": "select 1 as share from changes_of_flat"}, TargetMismatch, "lacks id"),
        ({"table": "reports.none"}, TargetMismatch, "no table reports.none"),
        ({"key": ["share"]}, TargetMismatch, "unique"),
        ({"deleted": "gone"}, TargetMismatch, "no column gone"),
        ({"changes": ["public.absent"]}, TargetMismatch, "public.absent"),
        ({"sql": None, "function": "tests.queries:missing"}, ConfigInvalid, "missing"),
    ],
)
def test_what_does_not_fit(
    change: Mapping[str, Any], error: type[Exception], words: str, lane: MakeLane, target: Target, topic: Topic
) -> None:
    topic.send(_messages(1, {}))
    made = lane(CommitMode.LEDGER, queries={"shares": {**ROWS, **change}}).of_query("shares")
    with pytest.raises(error, match=words):
        made.run_until_caught_up()
    assert target.ledger(made.name) is None


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select after.id as id, count(*) as share from changes_of_flat group by after.id", "watermark"),
        ("select after.id as id, after.v as share from changes_of_flat order by after.v", "[Ss]ort"),
    ],
)
def test_what_spark_has_no_stream_for(sql: str, words: str, lane: MakeLane, target: Target, topic: Topic) -> None:
    """It computes them of rows that are all there."""
    topic.send(_messages(1, {}))
    made = lane(CommitMode.LEDGER, queries={"shares": {**ROWS, "sql": sql, "output": "append"}}).of_query("shares")
    with pytest.raises(ConfigInvalid, match=words):
        made.run_until_caught_up()
    assert _found(target) == []


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("mode", MODES)
def test_deletes_by_a_marker(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    """Of several rows of a key in one epoch the last one counts."""
    debezium = Debezium()
    rows = [{"id": number, "v": number + 1} for number in range(10)]
    topic.send([debezium.create(FLAT, row) for row in rows])
    topic.send([debezium.delete(FLAT, row) for row in rows[:4]])
    topic.send([debezium.create(FLAT, rows[0])])
    query = {
        **ROWS,
        "sql": "select coalesce(after.id, before.id) as id, after.v as share, op = 'd' as gone from changes_of_flat",
        "deleted": "gone",
    }
    made = lane(mode, queries={"shares": query}).of_query("shares")
    made.run_until_caught_up()
    assert _found(target) == [(number, number + 1) for number in range(10) if number not in (1, 2, 3)]
    topic.send([debezium.delete(FLAT, row) for row in rows[5:]])
    made.run_until_caught_up()
    assert _found(target) == [(0, 1), (4, 5)]


@pytest.mark.usefixtures("prepared")
def test_a_table_that_leaves_rows_out(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.execute("create function skip() returns trigger language plpgsql as 'begin return null; end'")
    target.execute("create trigger t before insert on reports.shares for each row execute function skip()")
    topic.send(_messages(3, {}))
    made = lane(CommitMode.TWO_PHASE, queries={"shares": ROWS}).of_query("shares")
    with pytest.raises(TargetMismatch, match="took 0 of 3 rows"):
        made.run_until_caught_up()


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("mode", MODES)
def test_another_session_inserts_one_of_the_rows(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    """While it has not committed the query waits; then it writes over the row."""
    topic.send(_messages(10, {}))
    made = lane(mode, queries={"shares": ROWS}).of_query("shares")
    waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with target.engine.begin() as other:
        other.exec_driver_sql("insert into reports.shares values (3, -1)")
        made.start()
        eventually(lambda: target.execute(waiting)[0][0] == 1, why="the query to wait")
    made.until_caught_up(topic)
    made.stop()
    expected = dict(_found(target))
    assert sorted(expected) == list(range(10))
    assert expected[3] != -1


@pytest.mark.usefixtures("prepared")
def test_a_topic_of_json(lane: MakeLane, target: Target, topic: Topic) -> None:
    """A message without a value is left out."""
    topic.send([Message(key=None, value=b'{"id": 1, "n": 5}'), Message(key=b"k", value=None)])
    topic.send([Message(key=None, value=b'{"id": 1, "n": 6, "more": [1]}'), Message(key=None, value=b'{"id": 2}')])
    query = {
        "topics": {"clicks": {"topic": topic.name, "columns": "id bigint, n bigint"}},
        "sql": "select id, sum(n) as share from clicks group by id",
        "table": "reports.shares",
    }
    made = lane(CommitMode.TWO_PHASE, queries={"shares": query}).of_query("shares")
    made.run_until_caught_up()
    assert _found(target) == [(1, 11), (2, None)]
