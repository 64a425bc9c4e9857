"""What every commit mode promises: one suite, run in each of them, with real Kafka, Spark and Postgres."""

import itertools
import shutil
from functools import partial

import pytest

from app.config.settings import CommitMode
from app.model.offsets import TopicPartition
from tests import messages as m
from tests.fix_lane import MODES, Hold, MakeLane
from tests.fix_target import Target
from tests.fix_topic import NewTopic, Topic
from tests.messages import Debezium, Table
from tests.oracle import Reader, equals_oracle, questions
from tests.rollups import BY_COUNTER, BY_STATUS
from tests.waiting import eventually
from tests.workload import COUNTER, CUSTOMER, LINE, ORDERS, SETTING, TABLES, Shop

pytestmark = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)


TWO_PHASE, LEDGER, AT_LEAST_ONCE = CommitMode.TWO_PHASE, CommitMode.LEDGER, CommitMode.AT_LEAST_ONCE
#: the modes in which a test's lane has an archive: there are both participants then, else one
ARCHIVED = {
    "test_a_mixed_workload_ends_equal_to_the_oracle": (AT_LEAST_ONCE, LEDGER),
    "test_an_idle_topics_last_epoch_becomes_visible": (TWO_PHASE,),
    "test_an_epoch_that_spark_replays_counts_once": (AT_LEAST_ONCE, LEDGER),
    "test_markers_gaps_and_aborted_transactions": (TWO_PHASE,),
    "test_a_topic_with_nothing_but_an_aborted_transaction": (AT_LEAST_ONCE, LEDGER),
    "test_a_topic_for_each_table_is_merged_by_the_sources_order": (TWO_PHASE,),
    "test_a_lane_for_each_partition": (AT_LEAST_ONCE, LEDGER),
    "test_nothing_of_an_epoch_shows_before_all_of_it": (TWO_PHASE,),
    "test_no_epoch_ends_inside_a_source_transaction": (AT_LEAST_ONCE, LEDGER),
}


@pytest.fixture
def lane(lane: MakeLane, mode: CommitMode, request: pytest.FixtureRequest) -> MakeLane:
    """With an archive where ARCHIVED says so; a test that is not in there fails."""
    return partial(lane, archived=mode in ARCHIVED[request.node.originalname])


FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})


def test_a_mixed_workload_ends_equal_to_the_oracle(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    """In small epochs, with restarts; foreign keys and swapped unique values force the faithful plan now and then."""
    target.create(*TABLES)
    shop, made = Shop(seed=1), lane(mode, epoch={"max_messages": 250})
    first = len(topic.send(shop.messages(700)))
    with Reader(target, topic) as reader:
        made.run_until_caught_up()
        equals_oracle(target, topic)
        second = len(topic.send(shop.messages(300)))
        made.run_until_caught_up()
        made.run_until_caught_up()  # nothing to do
    questions(target, topic, reader=reader, exactly_once=made.exactly_once, archive=made.archive)
    epochs = target.epochs()
    assert [row.consumed for row in epochs] == [250, 250, first - 500, 250, second - 250]
    assert "faithful" in {row.plan for row in epochs}
    assert len(reader.positions) > 1, "the reader was there while it happened"


def test_an_idle_topics_last_epoch_becomes_visible(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    """Without a further message, which may not come for hours; and a stop in good order leaves nothing in doubt."""
    target.create(FLAT)
    d, made = Debezium(), lane(mode)
    topic.send([d.create(FLAT, {"id": 1, "v": "a"})])
    made.start()
    for number in (2, 3):
        made.until_caught_up(topic)
        equals_oracle(target, topic)
        topic.send([d.create(FLAT, {"id": number, "v": "a"}), d.heartbeat()])
    made.until_caught_up(topic)
    eventually(lambda: target.prepared() == [], why="nothing to be in doubt")
    made.stop()
    questions(target, topic, archive=made.archive)


def test_an_epoch_that_spark_replays_counts_once(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    """The checkpoint entry of an epoch is lost that the target has: at-least-once applies it again, to the same end."""
    target.create(*TABLES)
    kept = (BY_STATUS, BY_COUNTER)
    rollups = {one.name: one.prepare(target) for one in kept}
    shop, made = Shop(seed=2), lane(mode, epoch={"max_messages": 200}, rollups=rollups)
    topic.send(shop.messages(400))
    made.run_until_caught_up()
    last = made.checkpoint_files.complete()[-1]
    made.checkpoint_files.forget_commit(last)
    topic.send(shop.messages(100))
    made.run_until_caught_up()
    questions(target, topic, exactly_once=made.exactly_once, archive=made.archive)
    again = [row for row in target.epochs() if row.epoch == last]
    assert len(again) == 2, "one ledger row for each time, of another generation"
    assert again[0].end_position == again[1].end_position
    assert again[1].consumed == (
        again[1].duplicate if made.exactly_once else again[1].applied + again[1].compacted + again[1].filtered
    )
    for one in kept:
        assert one.differences(target) == []
        assert one.groups(target)


def test_markers_gaps_and_aborted_transactions(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    """Offsets that hold nothing, epochs that hold nothing for the target, and messages that no reader may see."""
    target.create(FLAT)
    d, made = Debezium(), lane(mode, epoch={"max_messages": 12})
    row = {"id": 1, "v": "committed"}
    topic.send_transaction([d.create(FLAT, row)])
    topic.send_transaction([d.create(FLAT, {"id": 2, "v": "aborted"}), d.delete(FLAT, row)], abort=True)
    for _ in range(12):
        topic.send_transaction([d.heartbeat()])
    for number in range(6):
        topic.send_transaction([d.update(FLAT, {"id": 9, "v": "aborted"})] * 2, abort=True)
        topic.send_transaction([d.create(FLAT, {"id": 10 + number, "v": "committed"})])
    made.run_until_caught_up()
    questions(target, topic, archive=made.archive)
    epochs = target.epochs()
    assert {"none", "deletes-first"} <= {row.plan for row in epochs}
    assert sum(row.consumed for row in epochs) < topic.end, "offsets are no count"


def test_a_topic_with_nothing_but_an_aborted_transaction(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    d, made = Debezium(), lane(mode)
    topic.send_transaction([d.create(FLAT, {"id": 2, "v": "aborted"})], abort=True)
    made.run_until_caught_up()
    questions(target, topic, archive=made.archive)
    target.create(FLAT)
    topic.send([d.create(FLAT, {"id": 1, "v": "a"})])
    made.run_until_caught_up()
    questions(target, topic, archive=made.archive)


def test_a_topic_for_each_table_is_merged_by_the_sources_order(
    mode: CommitMode, lane: MakeLane, target: Target, new_topic: NewTopic
) -> None:
    """Orders need their customers, lines their orders, though each comes in a topic of its own."""
    target.create(*TABLES)
    shop, topics = Shop(seed=3), {table.full_name: new_topic() for table in TABLES}
    made = lane(mode, topics=tuple(topics.values()))
    for _ in range(2):
        for table, messages in itertools.groupby(shop.messages(120), _table_of):
            topics[table].send(messages)
        made.run_until_caught_up()
        questions(target, *topics.values(), archive=made.archive)
    for table in (CUSTOMER, ORDERS, LINE, SETTING, COUNTER):
        assert target.rows(table.full_name) == shop.rows[table.full_name]


def test_a_lane_for_each_partition(mode: CommitMode, lane: MakeLane, target: Target, new_topic: NewTopic) -> None:
    """Order by key, one writer, ledger row and gid each; one partition has nothing to do at first."""
    target.create(SETTING, COUNTER)
    topic = new_topic(partitions=3)
    kept = () if mode is TWO_PHASE else (BY_COUNTER,)  # refused there
    rollups = {one.name: one.prepare(target) for one in kept}
    made = lane(mode, topics=(topic,), source={"order": "partition"}, epoch={"max_messages": 150}, rollups=rollups)
    messages = [one for one in Shop(seed=4).messages(900) if _is_independent(one)]
    first, second = messages[: len(messages) // 2], messages[len(messages) // 2 :]
    with Reader(target, topic) as reader:
        topic.send([one for one in first if topic.partition_of(one) != 2])
        made.run_until_caught_up()
        equals_oracle(target, topic)
        topic.send([one for one in first if topic.partition_of(one) == 2])
        topic.send(second)
        made.run_until_caught_up()
    questions(target, topic, reader=reader, archive=made.archive)
    assert {row.lane for row in target.epochs()} == {f"{made.name}.{number}" for number in range(3)}
    for one in kept:
        assert one.differences(target) == []
        assert one.groups(target)


def _table_of(message: m.Message) -> str:
    """The table whose topic the message goes to; markers go somewhere."""
    return message.change.table if message.change else SETTING.full_name


def _is_independent(message: m.Message) -> bool:
    """Tables without foreign keys: partitions keep the order by key only."""
    return message.change is None or message.change.table in (SETTING.full_name, COUNTER.full_name)


def test_nothing_of_an_epoch_shows_before_all_of_it(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, hold: Hold
) -> None:
    """Stopped after the merge, with everything written, and stopped after the decision."""
    target.create(FLAT, COUNTER)
    d, made = Debezium(), lane(mode)
    topic.send([d.create(FLAT, {"id": 1, "v": "a"}), d.create(COUNTER, {"id": 1, "hits": 1})])
    held = hold("after-ledger")
    made.start()
    held.reached()
    assert target.rows("public.flat") == target.rows("public.counter") == {}
    assert target.epochs() == []
    held.release()
    made.until_caught_up(topic)
    questions(target, topic, archive=made.archive)
    made.stop()


def test_no_epoch_ends_inside_a_source_transaction(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    """However small the epochs, and for any reader; nor after a checkpoint entry is lost, or the checkpoint."""
    target.create(*TABLES)
    messages = Shop(seed=9).messages(120)
    made = lane(mode, epoch={"max_messages": 7, "align": "source-transaction"})
    ends = {0} | {at + 1 for at, message in enumerate(messages) if b'"status":"END"' in (message.value or b"")}
    parted = next(at for at in range(60, len(messages)) if not {at - 1, at, at + 1} & ends)
    with Reader(target, topic) as reader:
        topic.send(messages[:parted])
        made.run_until_caught_up()
        last = target.ledger()
        assert last is not None
        tp = TopicPartition(topic.name, 0)
        assert (last.span.end[tp], last.read[tp]) == (max(end for end in ends if end < parted), parted)
        made.checkpoint_files.forget_commit(made.checkpoint_files.complete()[-1])
        made.run_until_caught_up()
        shutil.rmtree(made.checkpoint)
        made.run_until_caught_up()
        topic.send(messages[parted:])
        made.run_until_caught_up()
    questions(target, topic, reader=reader, exactly_once=made.exactly_once, archive=made.archive)
    found = {row.end_position[topic.name]["0"] for row in target.epochs()}
    assert found <= ends
    assert len(found) > 10


def test_each_mode_has_cases_with_an_archive_and_without(mode: CommitMode) -> None:
    """And each test says which, whatever their order is."""
    assert {name for name in globals() if name.startswith("test_")} == {*ARCHIVED, _ITSELF}
    assert {mode in modes for modes in ARCHIVED.values()} == {True, False}


_ITSELF = test_each_mode_has_cases_with_an_archive_and_without.__name__
