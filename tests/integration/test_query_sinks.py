"""Queries whose rows go to files or to a topic: each row once, epochs as a whole; what is refused, and why."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark.sql import SparkSession

from app.config.queries import FileFormat, QuerySettings
from app.config.settings import CommitMode
from app.errors import EnvironmentMissing, ExitStatus, Refused, TargetMismatch
from app.kafka.broker import Broker
from app.query import rebuilding
from app.query.result_outbox import ResultOutbox
from tests.commands import Ended
from tests.fix_lane import MODES, LaneUnderTest, MakeLane
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import NewTopic, Topic
from tests.queries import LINES, QUERIES, Shop, with_options
from tests.query_sinks import epochs, messages_of, offsets_of, rows_of


@pytest.fixture(autouse=True)
def options(spark: SparkSession) -> Iterator[None]:
    """Those of a query's own session."""
    yield from with_options(spark)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row of Parquet as one of JSON."""
    at = row["at"]
    return {**row, "amount": None if row["amount"] is None else float(row["amount"]), "at": at and at.timestamp()}


def parsed(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "at": row["at"] and datetime.datetime.fromisoformat(row["at"]).timestamp()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FileFormat)
def test_files(
    form: FileFormat, mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, tmp_path: Path
) -> None:
    shop = Shop(target, topic, seed=1)
    shop.prepare()
    place = {"files": {"path": str(tmp_path), "format": form.value}, "max_messages": 60}
    made = lane(mode, queries={"lines": {**LINES, **place}}).of_query("lines")
    folder = tmp_path / made.name
    for count in (150, 50):
        shop.send(count)
        made.run_until_caught_up()
        found = [row for one in epochs(folder) for row in rows_of(one)]
        assert [row["offset"] for row in found] == offsets_of(topic)
    seen = {offset: (op, row) for op, _, offset, row in shop.seen}
    for row in found:
        op, source = seen[row["offset"]]
        now = plain(row) if form is FileFormat.PARQUET else parsed(row)
        has_row = op != "d"
        assert now == {
            "id": source["id"],
            "customer": source["customer"] if has_row else None,
            "amount": float(source["amount"]) if has_row else None,
            "note": source["note"] if has_row else None,
            "at": source["at"].timestamp() if has_row else None,
            "offset": row["offset"],
            "gone": op == "d",
        }
    assert len(epochs(folder)) > len({one.name.partition("-")[0] for one in epochs(folder)}) >= 2
    assert list((folder / ".pending").iterdir()) == []
    assert all(one.stat().st_mode & 0o077 == 0 for one in folder.rglob("*"))
    counted = target.ledger_sum(made.name)
    assert counted.consumed == counted.applied == len(topic.sent)


@pytest.mark.parametrize("mode", MODES)
def test_a_topic(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, new_topic: NewTopic) -> None:
    shop, out = Shop(target, topic, seed=1), new_topic()
    shop.prepare()
    place = {"kafka": {"topic": out.name}, "key": ["id"], "deleted": "gone", "max_messages": 60}
    made = lane(mode, queries={"lines": {**LINES, **place}}).of_query("lines")
    for count in (150, 50):
        shop.send(count)
        made.run_until_caught_up()
        found = messages_of(out)
        changes = [(op, offset, row) for op, _, offset, row in sorted(shop.seen, key=lambda one: one[2])]
        assert [key for key, _ in found] == [{"id": row["id"]} for _, _, row in changes]
        assert [value and value["offset"] for _, value in found] == [
            None if op == "d" else offset for op, offset, _ in changes
        ]
    for (_, value), (_, _, row) in zip(found, changes, strict=True):
        if value is not None:
            at = datetime.datetime.fromisoformat(value["at"])
            expected = {**row, "amount": float(row["amount"]), "at": at}
            assert {**value, "at": at} == {**expected, "offset": value["offset"]}
            assert at == row["at"]
    assert waiting(target, made) == 0


def test_a_window_to_a_topic(lane: MakeLane, target: Target, topic: Topic, new_topic: NewTopic) -> None:
    """The last message of a key is the row that a table has."""
    shop, out = Shop(target, topic, seed=3), new_topic()
    shop.prepare()
    query = {name: value for name, value in QUERIES["by_minute"].items() if name != "table"}
    place = {"kafka": {"topic": out.name}, "key": ["minute", "customer"], "max_messages": 60}
    made = lane(CommitMode.TWO_PHASE, queries={"by_minute": {**query, **place}}).of_query("by_minute")
    shop.send(200)
    made.run_until_caught_up()
    last = {json.dumps(key): value for key, value in messages_of(out)}
    assert sorted(
        (datetime.datetime.fromisoformat(one["minute"]), one["customer"], one["orders"], round(one["amount"] * 100))
        for one in last.values()
        if one is not None
    ) == [
        (minute, customer, orders, round(amount * 100)) for minute, customer, orders, amount in shop.batch("by_minute")
    ]


def test_rows_wait_while_the_topic_cannot_be_written(
    lane: MakeLane, target: Target, topic: Topic, new_topic: NewTopic
) -> None:
    """A row that is too large for the topic waits with all that follow; they are sent once the topic takes it."""
    shop, out = Shop(target, topic, seed=4), new_topic()
    limit(out, 200)
    shop.prepare()
    query = {**LINES, "sql": f"select offset, repeat('x', 1000) as wide, id from ({LINES['sql']})"}
    made = lane(CommitMode.LEDGER, queries={"lines": {**query, "kafka": {"topic": out.name}}}).of_query("lines")
    shop.send(20)
    made.run_until_caught_up()
    assert messages_of(out) == []
    assert waiting(target, made) == len(offsets_of(topic))
    limit(out, 1_000_000)
    made.run_until_caught_up()
    assert [value["offset"] for _, value in messages_of(out) if value] == offsets_of(topic)
    assert waiting(target, made) == 0


def limit(topic: Topic, size: int) -> None:
    """Bytes of a message."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": topic.kafka.bootstrap, "log_level": 0})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def waiting(target: Target, made: LaneUnderTest) -> int:
    """Rows in the outbox."""
    with target.engine.begin() as connection:
        name = ResultOutbox(SCHEMA, made.name).name
        return connection.exec_driver_sql(f"select count(*) from {name}").scalar_one()


def test_no_folder(lane: MakeLane, target: Target, topic: Topic, tmp_path: Path) -> None:
    shop = Shop(target, topic, seed=1)
    shop.prepare()
    files = {"files": {"path": str(tmp_path / "not-mounted")}}
    made = lane(CommitMode.TWO_PHASE, queries={"lines": {**LINES, **files}}).of_query("lines")
    with pytest.raises(EnvironmentMissing, match="there is no folder"):
        made.run_until_caught_up()
    assert not target.position(made.name)


def test_no_topic(lane: MakeLane, target: Target, topic: Topic) -> None:
    shop = Shop(target, topic, seed=1)
    shop.prepare()
    made = lane(CommitMode.TWO_PHASE, queries={"lines": {**LINES, "kafka": {"topic": "not-there"}}}).of_query("lines")
    with pytest.raises(EnvironmentMissing, match="Kafka has no topic not-there"):
        made.run_until_caught_up()


def test_a_key_that_the_result_lacks(lane: MakeLane, target: Target, topic: Topic, new_topic: NewTopic) -> None:
    shop = Shop(target, topic, seed=1)
    shop.prepare()
    place = {"kafka": {"topic": new_topic().name}, "key": ["number"]}
    made = lane(CommitMode.TWO_PHASE, queries={"lines": {**LINES, **place}}).of_query("lines")
    with pytest.raises(TargetMismatch, match="no column number"):
        made.run_until_caught_up()


def test_a_full_disk_stops_nothing_for_good(
    lane: MakeLane, target: Target, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be written any more ends the run; nothing of the epoch is applied, and it goes on."""
    shop = Shop(target, topic, seed=1)
    shop.prepare()
    made = lane(CommitMode.TWO_PHASE, queries={"lines": {**LINES, "files": {"path": str(tmp_path)}}}).of_query("lines")
    folder = tmp_path / made.name
    (folder / ".pending").mkdir(parents=True)
    (folder / ".pending").rmdir()
    (folder / ".pending").write_text("in the way")
    shop.send(20)
    with pytest.raises(EnvironmentMissing, match=r"files\.path has to be there"):
        made.run_until_caught_up()
    (folder / ".pending").unlink()
    made.run_until_caught_up()
    assert [row["offset"] for one in epochs(folder) for row in rows_of(one)] == offsets_of(topic)


def test_a_rebuild_replaces_no_files_and_no_topic(
    lane: MakeLane, target: Target, topic: Topic, new_topic: NewTopic, tmp_path: Path, surelane: Any
) -> None:
    shop, out, other = Shop(target, topic, seed=1), new_topic(), new_topic()
    shop.prepare()
    queries = {
        "lines": {**LINES, "files": {"path": str(tmp_path)}},
        "sent": {**LINES, "kafka": {"topic": out.name}},
    }
    shop.send(30)
    whole = lane(CommitMode.TWO_PHASE, queries=queries)
    for name in queries:
        whole.of_query(name).run_until_caught_up()
        ended: Ended = surelane("state", "rebuild", name, "--config", str(whole.config_file))
        assert ended.status == ExitStatus.REFUSED
        assert "of the former result" in ended.err
    files = whole.of_query("lines")
    (tmp_path / files.name).rename(tmp_path / "kept")
    rebuild(target, files)
    files.run_until_caught_up()
    assert [row["offset"] for one in epochs(tmp_path / files.name) for row in rows_of(one)] == offsets_of(topic)
    moved = whole.changed(queries={**queries, "sent": {**LINES, "kafka": {"topic": other.name}}}).of_query("sent")
    rebuild(target, moved)
    moved.run_until_caught_up()
    assert [value["offset"] for _, value in messages_of(other) if value] == offsets_of(topic)


def rebuild(target: Target, made: LaneUnderTest) -> None:
    with Broker(made.settings.source) as broker:
        rebuilding.begin(made.settings, target.as_lane, broker, from_earliest=False)


def test_a_rebuild_begins_at_the_first_message(lane: MakeLane, target: Target, topic: Topic, tmp_path: Path) -> None:
    shop = Shop(target, topic, seed=1)
    shop.prepare()
    queries = {"lines": {**LINES, "files": {"path": str(tmp_path)}, "start": "latest"}}
    with pytest.raises(Refused, match="start: latest"):
        rebuild(target, lane(CommitMode.TWO_PHASE, queries=queries).of_query("lines"))


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({}, "needs table, files or kafka"),
        ({"table": "a.b", "kafka": {"topic": "t"}}, "needs table, files or kafka"),
        ({"files": {"path": "/x"}, "key": ["id"]}, "files of rows have no key"),
        ({"files": {"path": "/x"}, "deleted": "gone"}, "files of rows have no deleted"),
        ({"kafka": {"topic": "t"}, "deleted": "gone"}, "needs a key"),
        ({"kafka": {"topic": "t", "options": {"transactional.id": "x"}}}, "is set by Surelane itself"),
    ],
)
def test_what_the_configuration_refuses(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        QuerySettings.model_validate({**LINES, **more})
