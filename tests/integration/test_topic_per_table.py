"""A topic for each table (Debezium's default), foreign keys between them: epochs follow the source's commit order."""

import json
import shutil
import signal
import threading
from dataclasses import replace

import pytest

from app.config.settings import CommitMode
from app.errors import ExitStatus, TooManyHeld
from app.model.offsets import TopicPartition
from tests import messages as m
from tests.fix_lane import MODES, Hold, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import NewTopic, Topic
from tests.messages import Debezium, Message, Row, Table
from tests.oracle import questions

PARENT = Table("parent", {"id": m.INT, "v": m.TEXT})
CHILD = Table("child", {"id": m.INT, "parent": m.INT}, constraints=("foreign key (parent) references parent",))
WAITING_CHILD = Table(
    "child",
    {"id": m.INT, "parent": m.INT},
    constraints=("foreign key (parent) references parent deferrable initially deferred",),
)
SKIPPING = {"epoch": {"max_messages": 100}, "guard": {"on_skip": "continue"}}


def parents(d: Debezium, first: int, end: int) -> list[Message]:
    return [d.create(PARENT, {"id": number, "v": "a"}) for number in range(first, end)]


def children(d: Debezium, first: int, end: int, *, of: int) -> list[Message]:
    """Of parents from `of` on."""
    return [d.create(CHILD, {"id": number, "parent": of + number - first}) for number in range(first, end)]


def without_place(message: Message) -> Message:
    """As a connector writes it whose source has no `sequence`."""
    value = json.loads(message.value or b"")
    del value["source"]["sequence"]
    return replace(message, value=json.dumps(value).encode())


def quarantined(target: Target) -> int:
    return target.execute("select count(*) from surelane.quarantine")[0][0]


@pytest.fixture
def topics(target: Target, new_topic: NewTopic) -> tuple[Topic, Topic]:
    """Of the parents, and of the children."""
    target.create(PARENT, CHILD)
    return new_topic(), new_topic()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_children_wait_for_parents_of_a_larger_topic(
    mode: CommitMode, lane: MakeLane, target: Target, topics: tuple[Topic, Topic]
) -> None:
    """Spark reads both topics in proportion to their backlogs: the child 10 comes with the parents up to 90."""
    d = Debezium()
    topics[0].send(parents(d, 0, 1000))
    topics[1].send(children(d, 0, 100, of=900))
    lane(mode, topics=topics, **SKIPPING).run_until_caught_up()
    assert quarantined(target) == 0
    assert (len(target.rows("public.parent")), len(target.rows("public.child"))) == (1000, 100)
    questions(target, *topics)


def test_a_topic_with_far_more_backlog_waits_for_a_small_one(
    lane: MakeLane, target: Target, topics: tuple[Topic, Topic]
) -> None:
    """All parents were there before the first child, and are read as slowly as all children are."""
    d = Debezium()
    topics[0].send(parents(d, 0, 200))
    topics[1].send([d.create(CHILD, {"id": number, "parent": number % 200}) for number in range(4000)])
    lane("ledger", topics=topics, epoch={"max_messages": 500}, guard={"on_skip": "continue"}).run_until_caught_up()
    assert quarantined(target) == 0
    assert len(target.rows("public.child")) == 4000
    questions(target, *topics)


def test_more_than_may_wait_stops_the_lane_and_a_higher_limit_goes_on(
    lane: MakeLane, target: Target, topics: tuple[Topic, Topic]
) -> None:
    d = Debezium()
    topics[0].send(parents(d, 0, 100))
    topics[1].send([d.create(CHILD, {"id": number, "parent": number % 100}) for number in range(1000)])
    epoch = {"max_messages": 200, "max_held_messages": 300}
    made = lane("two-phase", topics=topics, epoch=epoch, guard={"on_skip": "continue"})
    with pytest.raises(TooManyHeld, match="max_held_messages is 300") as stopped:
        made.run_until_caught_up()
    assert stopped.value.exit_status is ExitStatus.TRANSACTION
    assert quarantined(target) == 0
    made.changed(epoch={"max_held_messages": 1000}).run_until_caught_up()
    assert quarantined(target) == 0
    questions(target, *topics)


@pytest.mark.parametrize("table", [CHILD, WAITING_CHILD], ids=["at once", "deferred"])
def test_rows_of_a_snapshot_wait_for_parents_that_are_unread(
    table: Table, lane: MakeLane, target: Target, new_topic: NewTopic
) -> None:
    """They are all from one place of the source: what is too early is found out by the target."""
    target.create(PARENT, table)
    topics, d = (new_topic(), new_topic()), Debezium()

    def read(table: Table, row: Row) -> Message:
        d.lsn = 1_000_000
        return d.read(table, row)

    topics[1].send([read(CHILD, {"id": number, "parent": 299 - number}) for number in range(100)])
    topics[0].send([read(PARENT, {"id": number, "v": "a"}) for number in range(300)])
    lane("two-phase", topics=topics, **SKIPPING).run_until_caught_up()
    assert quarantined(target) == 0
    questions(target, *topics)


def test_a_source_that_does_not_say_its_places(lane: MakeLane, target: Target, topics: tuple[Topic, Topic]) -> None:
    """MySQL's."""
    d = Debezium()
    topics[0].send(map(without_place, parents(d, 0, 300)))
    topics[1].send(map(without_place, children(d, 0, 100, of=200)))
    lane("ledger", topics=topics, **SKIPPING).run_until_caught_up()
    assert quarantined(target) == 0
    questions(target, *topics)


@pytest.mark.parametrize("has_places", [True, False])
def test_a_child_whose_parent_never_comes_goes_into_quarantine_alone(
    has_places: bool, lane: MakeLane, target: Target, topics: tuple[Topic, Topic]
) -> None:
    d, change = Debezium(), (lambda message: message) if has_places else without_place
    topics[1].send([change(d.create(CHILD, {"id": 1000, "parent": 5000}))])
    topics[0].send(map(change, parents(d, 0, 300)))
    topics[1].send(map(change, children(d, 0, 100, of=200)))
    lane("two-phase", topics=topics, **SKIPPING).run_until_caught_up()
    assert target.execute('select topic, "offset" from surelane.quarantine') == [(topics[1].name, 0)]
    assert (len(target.rows("public.parent")), len(target.rows("public.child"))) == (300, 100)


def test_parents_that_are_deleted_wait_for_their_children(
    lane: MakeLane, target: Target, topics: tuple[Topic, Topic]
) -> None:
    """The other way round: the children's deletes are unread when the parents' are read."""
    d = Debezium()
    topics[0].send(parents(d, 0, 50))
    topics[1].send(children(d, 0, 50, of=0))
    made = lane("two-phase", topics=topics, **SKIPPING)
    made.run_until_caught_up()
    topics[1].send([d.update(CHILD, {"id": number % 50, "parent": number % 50}) for number in range(500)])
    topics[1].send([d.delete(CHILD, {"id": number, "parent": number}) for number in range(50)])
    topics[0].send([d.delete(PARENT, {"id": number, "v": "a"}) for number in range(50)])
    made.run_until_caught_up()
    assert quarantined(target) == 0
    questions(target, *topics)


def test_the_run_ends_with_what_there_was_when_it_began(
    lane: MakeLane, target: Target, topics: tuple[Topic, Topic], hold: Hold
) -> None:
    """A parent comes after Spark has planned the last epoch, and children of that epoch wait for it."""
    d = Debezium()
    first, late = parents(d, 0, 20), parents(d, 20, 21)
    topics[0].send(first)
    topics[1].send(children(d, 0, 21, of=0))
    held, made = hold("epoch-start"), lane("two-phase", topics=topics, **SKIPPING)
    run = threading.Thread(target=made.run_until_caught_up)
    run.start()
    held.reached()
    topics[0].send(late)
    held.release()
    run.join(240)
    assert not run.is_alive()
    assert quarantined(target) == 0
    assert dict(target.position()) == {TopicPartition(topic.name, 0): 21 for topic in topics}
    questions(target, *topics)


def test_a_lane_that_runs_applies_what_comes_to_both(
    lane: MakeLane, target: Target, topics: tuple[Topic, Topic]
) -> None:
    d, made = Debezium(), lane("two-phase", topics=topics, **SKIPPING)
    made.start()
    for number in range(0, 300, 10):
        topics[0].send(parents(d, number, number + 10))
        topics[1].send(children(d, number, number + 10, of=number))
    made.until_caught_up(*topics)
    made.stop()
    assert quarantined(target) == 0
    questions(target, *topics)


def test_a_stopped_lane_goes_on_with_what_it_held(lane: MakeLane, target: Target, topics: tuple[Topic, Topic]) -> None:
    """In the same checkpoint, and in a new one."""
    d = Debezium()
    topics[0].send(parents(d, 0, 100))
    topics[1].send([d.create(CHILD, {"id": number, "parent": number % 100}) for number in range(1000)])
    made = lane("two-phase", topics=topics, epoch={"max_messages": 200, "max_held_messages": 300})
    with pytest.raises(TooManyHeld):
        made.run_until_caught_up()
    shutil.rmtree(made.checkpoint)
    made.changed(epoch={"max_held_messages": 1000}).run_until_caught_up()
    assert quarantined(target) == 0
    questions(target, *topics)


def test_source_transactions_are_kept_whole_in_that_order(lane: MakeLane, target: Target, new_topic: NewTopic) -> None:
    """Each has changes in both topics; a reader of the target never sees a part of one."""
    target.create(PARENT, CHILD)
    topics, d = tuple(new_topic(name=f"{target.lane}.public.{name}") for name in ("parent", "child")), Debezium()
    markers = new_topic(name=f"{target.lane}.transaction")
    for number in range(60):
        markers.send([d.begin()])
        topics[0].send(parents(d, number * 8, number * 8 + 8))
        topics[1].send(children(d, number, number + 1, of=number * 8 + 7))
        markers.send([d.end()])
    epoch = {"max_messages": 100, "align": "source-transaction"}
    made = lane("ledger", topics=(*topics, markers), epoch=epoch, guard={"on_skip": "continue"})
    made.run_until_caught_up()
    assert quarantined(target) == 0
    for row in target.epochs():
        assert row.end_position[topics[0].name]["0"] == 8 * row.end_position[topics[1].name]["0"]
    questions(target, *topics, markers)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_killed_while_messages_wait(
    mode: CommitMode, lane: MakeLane, lane_process: MakeProcess, target: Target, topics: tuple[Topic, Topic]
) -> None:
    """Before the checkpoint has the epoch: it is settled or done once more, and what waited is read again."""
    d = Debezium()
    topics[0].send(parents(d, 0, 100))
    topics[1].send([d.create(CHILD, {"id": number, "parent": number % 100}) for number in range(500)])
    made = lane(mode, topics=topics, archived=True, **SKIPPING)
    victim = lane_process(made, failpoint="after-pre-commit=kill@3").start()
    assert victim.wait() == -signal.SIGKILL, victim.tail()
    made.run_until_caught_up()
    assert quarantined(target) == 0
    questions(target, *topics, exactly_once=made.exactly_once, archive=made.archive)
