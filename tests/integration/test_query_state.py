"""The state of a query: read, rescaled, lost and computed anew."""

import shutil
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from app.config.settings import CommitMode
from app.errors import Diverged, EnvironmentMissing, ExitStatus, Refused, StateUnfit
from app.kafka.broker import Broker
from app.query import rebuilding, stored_state
from app.query.rescaling import rescale
from app.recover import stopped_lanes
from tests.commands import called, command
from tests.fix_lane import Hold, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.queries import QUERIES, Shop, with_options
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def options(spark: SparkSession) -> Iterator[None]:
    """Those of a query's own session."""
    yield from with_options(spark)


def _made(shop: Shop, lane: MakeLane, query: str, mode: CommitMode = CommitMode.TWO_PHASE) -> LaneUnderTest:
    shop.prepare()
    return lane(mode, queries={query: {**QUERIES[query], "max_messages": 60}}).of_query(query)


def _run(shop: Shop, made: LaneUnderTest, query: str, count: int = 80) -> None:
    shop.send(count)
    made.run_until_caught_up()
    assert shop.result(query) == shop.batch(query)


@pytest.mark.costly(1)
@pytest.mark.parametrize("query", QUERIES)
def test_rescaled(query: str, lane: MakeLane, spark: SparkSession, target: Target, topic: Topic) -> None:
    """2 -> 8 -> 3 partitions."""
    shop = Shop(target, topic, seed=2)
    made = _made(shop, lane, query)
    _run(shop, made, query)
    for before, partitions in ((2, 8), (8, 3)):
        assert rescale(made.settings, spark, target.as_lane, partitions) == before
        assert rescale(made.settings, spark, target.as_lane, partitions) == partitions
        _run(shop, made, query)
        found = stored_state.operators(spark, made.settings.checkpoint)
        assert {one["numPartitions"] for one in found} == {partitions}


def test_a_running_query_is_not_rescaled(
    lane: MakeLane, spark: SparkSession, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopped_lanes, "ENDING_SECONDS", 0.1)
    shop = Shop(target, topic, seed=3)
    made = _made(shop, lane, "by_minute")
    _run(shop, made, "by_minute")
    made.start()
    eventually(lambda: made.health.ready().ok, why="the query to run")
    with pytest.raises(Refused, match="running"):
        rescale(made.settings, spark, target.as_lane, 8)
    with Broker(made.settings.source) as broker, pytest.raises(Refused, match="running"):
        rebuilding.begin(made.settings, target.as_lane, broker, from_earliest=False)
    made.stop()
    _run(shop, made, "by_minute")


@pytest.mark.parametrize("mode", CommitMode)
def test_a_lost_checkpoint(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    """The query stops; one command has its result computed anew, and readers see the old rows until it is whole."""
    shop = Shop(target, topic, seed=4)
    made = _made(shop, lane, "by_minute", mode)
    _run(shop, made, "by_minute", 150)
    shutil.rmtree(made.checkpoint)
    with pytest.raises(Diverged, match="state") as stopped:
        made.run_until_caught_up()
    assert "surelane state rebuild by_minute" in str(stopped.value)
    before = shop.result("by_minute")
    with Broker(made.settings.source) as broker:
        rebuilding.begin(made.settings, target.as_lane, broker, from_earliest=False)
    # rows that the messages do not give go, too
    target.execute("update reports.by_minute set orders = orders + 1")
    assert shop.result("by_minute") != before
    made.run_until_caught_up()
    assert shop.result("by_minute") == before
    rebuilt = target.execute("select relname from pg_class where relname ~ '^rebuild_' and relkind = 'r'")
    assert rebuilt == []
    _run(shop, made, "by_minute")
    assert target.prepared() == []


def test_readers_see_the_old_rows_until_the_new_ones_are_whole(
    lane: MakeLane, target: Target, topic: Topic, hold: Hold
) -> None:
    shop = Shop(target, topic, seed=5)
    made = _made(shop, lane, "counts", CommitMode.LEDGER)
    _run(shop, made, "counts", 150)
    before = shop.result("counts")
    with Broker(made.settings.source) as broker:
        rebuilding.begin(made.settings, target.as_lane, broker, from_earliest=False)
    held = hold("after-begin", at=2)
    made.start()
    held.reached()
    assert shop.result("counts") == before
    table = rebuilding.rebuild_name(made.name)
    assert target.execute(f"select from surelane.{table}")
    held.release()
    made.until_caught_up(topic)
    made.stop()
    assert shop.result("counts") == before


def test_killed_when_it_is_decided(lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic) -> None:
    """The next start commits what ends the rebuild, and the query goes on with its own table."""
    shop = Shop(target, topic, seed=6)
    shop.prepare()
    whole = lane(CommitMode.TWO_PHASE, queries={"counts": {**QUERIES["counts"], "max_messages": 1000}})
    made = whole.of_query("counts")
    _run(shop, made, "counts", 60)
    with Broker(made.settings.source) as broker:
        rebuilding.begin(made.settings, target.as_lane, broker, from_earliest=False)
    query = ("--query", "counts")
    process = lane_process(whole, failpoint="before-commit=kill", until_caught_up=True, arguments=query).start()
    assert process.wait() < 0, process.tail()
    assert len(target.prepared()) == 1
    shop.send(20)
    last = lane_process(whole, until_caught_up=True, arguments=query).start()
    assert last.wait() == ExitStatus.OK, last.tail()
    assert shop.result("counts") == shop.batch("counts")
    assert target.prepared() == []


@pytest.mark.parametrize(
    "change",
    [
        # another key, another type of value, no state at all of this kind
        "select after.note as minute, after.customer as customer, count(*) as orders, sum(after.amount) as amount"
        " from changes_of_orders where op in ('c', 'u') group by after.note, after.customer",
        "select window.start as minute, after.customer as customer, count(*) as orders, max(after.note) as amount"
        " from changes_of_orders where op in ('c', 'u') group by window(ts, '1 minute'), after.customer",
    ],
)
def test_another_query_over_the_same_state(change: str, lane: MakeLane, target: Target, topic: Topic) -> None:
    """It is refused, nothing is applied, and the former one goes on."""
    shop = Shop(target, topic, seed=10)
    made = _made(shop, lane, "by_minute")
    _run(shop, made, "by_minute")
    before = shop.result("by_minute")
    changed = made.changed(queries={"by_minute": {**QUERIES["by_minute"], "sql": change}}).of_query("by_minute")
    shop.send(20)
    with pytest.raises(StateUnfit, match="rebuild"):
        changed.run_until_caught_up()
    assert shop.result("by_minute") == before
    assert target.prepared() == []
    _run(shop, made, "by_minute")


def delete_before(topic: Topic, offset: int) -> None:
    """Have Kafka delete the messages before an offset."""
    admin = AdminClient({"bootstrap.servers": topic.kafka.bootstrap})
    for done in admin.delete_records([KafkaPartition(topic.name, 0, offset)]).values():
        done.result()


@pytest.mark.parametrize(("query", "mode"), [("by_minute", CommitMode.TWO_PHASE), ("pairs", CommitMode.LEDGER)])
def test_computed_anew_from_the_archive(
    query: str, mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    """The archive has what Kafka no longer has; then the query goes on with Kafka, also with new messages."""
    shop = Shop(target, topic, seed=8)
    shop.prepare()
    whole = lane(mode, archived=True, queries={query: {**QUERIES[query], "max_messages": 60}})
    made = whole.of_query(query)
    shop.send(150)
    whole.run_until_caught_up()
    shop.send(70)
    made.run_until_caught_up()
    delete_before(topic, 100)
    with Broker(made.settings.source) as broker:
        rebuilding.begin(made.settings, target.as_lane, broker, from_earliest=False)
    made.run_until_caught_up()
    assert shop.result(query) == shop.batch(query)
    assert target.execute("select relname from pg_class where relname ~ '^rebuild_' and relkind = 'r'") == []
    _run(shop, made, query, 40)
    assert target.prepared() == []
    counted = target.ledger_sum(made.name)
    assert counted.applied == len(target.position(made.name)) * len(topic.sent)


def test_a_query_that_was_stopped_for_too_long(lane: MakeLane, target: Target, topic: Topic) -> None:
    """It goes on from the archive, with the state that it has."""
    shop = Shop(target, topic, seed=9)
    shop.prepare()
    whole = lane(CommitMode.TWO_PHASE, archived=True, queries={"counts": {**QUERIES["counts"], "max_messages": 60}})
    made = whole.of_query("counts")
    _run(shop, made, "counts", 80)
    shop.send(100)
    whole.run_until_caught_up()
    shop.send(30)
    delete_before(topic, 150)
    made.run_until_caught_up()
    assert shop.result("counts") == shop.batch("counts")
    assert target.ledger_sum(made.name).applied == len(topic.sent)


def test_an_archive_with_a_part_of_it(lane: MakeLane, target: Target, topic: Topic) -> None:
    """It ends before Kafka begins."""
    shop = Shop(target, topic, seed=10)
    shop.prepare()
    whole = lane(CommitMode.LEDGER, archived=True, queries={"counts": QUERIES["counts"]})
    made = whole.of_query("counts")
    shop.send(50)
    whole.run_until_caught_up()
    _run(shop, made, "counts", 60)
    delete_before(topic, 80)
    with Broker(made.settings.source) as broker, pytest.raises(Refused, match="no archive has them"):
        rebuilding.begin(made.settings, target.as_lane, broker, from_earliest=False)


def test_messages_that_are_gone(lane: MakeLane, target: Target, topic: Topic) -> None:
    shop = Shop(target, topic, seed=6)
    made = _made(shop, lane, "counts", CommitMode.LEDGER)
    _run(shop, made, "counts", 60)
    delete_before(topic, 10)
    with Broker(made.settings.source) as broker:
        with pytest.raises(Refused, match="no longer has 10 offsets"):
            rebuilding.begin(made.settings, target.as_lane, broker, from_earliest=False)
        rebuilding.begin(made.settings, target.as_lane, broker, from_earliest=True)
    made.run_until_caught_up()
    shop.forget_before(10)
    assert shop.result("counts") == shop.batch("counts")


def test_a_key_a_store_and_what_epochs_wrote(lane: MakeLane, spark: SparkSession, target: Target, topic: Topic) -> None:
    shop = Shop(target, topic, seed=7)
    made = _made(shop, lane, "counts")
    _run(shop, made, "counts")
    where = made.settings.checkpoint
    rows = stored_state.rows(spark, where, operator=0, store="count", key=None, limit=100)
    assert sorted((row["key"]["customer"], row["value"]["n"]) for row in rows) == shop.result("counts")
    (one,) = stored_state.rows(spark, where, operator=0, store="count", key="3", limit=100)
    assert (3, one["value"]["n"]) in shop.result("counts")


def test_what_epochs_wrote(lane: MakeLane, spark: SparkSession, target: Target, topic: Topic) -> None:
    shop = Shop(target, topic, seed=7)
    made = _made(shop, lane, "by_minute")
    _run(shop, made, "by_minute", 150)
    where = made.settings.checkpoint
    wrote = stored_state.changes(spark, where, operator=0, store=None, first=1, last=2, limit=1000)
    assert {row["batch_id"] for row in wrote} == {1, 2}
    rows = stored_state.rows(spark, where, operator=0, store=None, key=None, limit=1000)
    now = {str(row["key"]): row["value"] for row in rows}
    assert all(now[str(row["key"])] == row["value"] for row in wrote if row["batch_id"] == 2)
    with pytest.raises(EnvironmentMissing, match="cannot be read"):
        stored_state.rows(spark, where, operator=7, store=None, key=None, limit=1)


def test_the_verbs(lane: MakeLane, target: Target, topic: Topic) -> None:
    shop = Shop(target, topic, seed=8)
    made = _made(shop, lane, "counts")
    _run(shop, made, "counts")
    assert {one["query"] for one in called(made, "state", "list")["states"]} == {"counts"}
    shown = called(made, "state", "show", "counts", "--store", "count", "--key", "3")
    assert [row["key"] for row in shown["rows"]] == [{"customer": 3}]
    assert command(made, "state", "show", "unknown").status == ExitStatus.CONFIG
    assert called(made, "state", "rescale", "counts", "--partitions", "3")["before"] == 2
    assert called(made, "status", "--query", "counts")["state"] == "stopped"
    _run(shop, made, "counts")
    assert called(made, "state", "rebuild", "counts")["place"] == "reports.counts"
    _run(shop, made, "counts")


def test_the_verbs_while_it_runs(lane: MakeLane, target: Target, topic: Topic) -> None:
    """They read the epochs that are complete, and the query goes on."""
    shop = Shop(target, topic, seed=11)
    made = _made(shop, lane, "by_minute")
    shop.send(150)
    made.start()
    made.until_caught_up(topic)

    def shown() -> list[int]:
        of = ("show", "by_minute", "--key", '{"_groupingexpression": 3}', "--limit", "1000")
        return sorted(next(iter(row["value"].values())) for row in called(made, "state", *of)["rows"])

    def expected() -> list[int]:
        return sorted(orders for _, customer, orders, _ in shop.batch("by_minute") if customer == 3)

    assert shown() == expected()
    last = made.checkpoint_files.complete()[-1]
    shop.send(100)
    made.until_caught_up(topic)
    wrote = called(made, "state", "changes", "by_minute", "--from", str(last + 1), "--limit", "1000")["rows"]
    assert {row["batch_id"] for row in wrote} == set(range(last + 1, made.checkpoint_files.complete()[-1] + 1))
    assert shown() == expected()
    refused = command(made, "state", "show", "by_minute", "--key", '{"customer": 3}')
    assert (refused.status, "window, _groupingexpression" in refused.err) == (ExitStatus.REFUSED, True)
    assert made.running
    shop.send(20)
    made.until_caught_up(topic)
    made.stop()
    assert shop.result("by_minute") == shop.batch("by_minute")
