"""Where a lane begins and in which order it applies, with one topic and with several."""

from typing import Any

import pytest

from app.config.settings import CommitMode
from app.errors import ConfigInvalid, EnvironmentMissing
from app.model.offsets import Offsets, TopicPartition
from tests import messages as m
from tests.fix_lane import MakeLane
from tests.fix_recover import forget
from tests.fix_target import Target
from tests.fix_topic import NewTopic, Topic
from tests.messages import Debezium, Table
from tests.oracle import equals_oracle, questions
from tools.devstack import Kafka

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
PARENT = Table("parent", {"id": m.INT, "v": m.TEXT})
CHILD = Table("child", {"id": m.INT, "parent": m.INT}, constraints=("foreign key (parent) references parent",))


def five(d: Debezium) -> list[m.Message]:
    """Rows 1 to 5."""
    return [d.create(FLAT, {"id": number, "v": "a"}) for number in range(1, 6)]


@pytest.mark.costly(2)
@pytest.mark.parametrize(("start", "expected"), [("earliest", [1, 2, 3, 4, 5]), ("latest", []), (3, [4, 5])])
def test_where_a_new_lane_begins(
    start: str | int, expected: list[int], lane: MakeLane, target: Target, topic: Topic
) -> None:
    """Only where the ledger knows nothing: a second start with another setting goes on where the lane was."""
    target.create(FLAT)
    d = Debezium()
    topic.send(five(d))
    where = {topic.name: {0: start}} if isinstance(start, int) else start
    lane("two-phase", source={"start": where}).run_until_caught_up()
    assert [key for (key,) in target.rows("public.flat")] == expected
    assert dict(target.position()) == {TopicPartition(topic.name, 0): 5}
    topic.send([d.create(FLAT, {"id": 6, "v": "a"})])
    lane("two-phase", source={"start": "latest"}).run_until_caught_up()
    assert [key for (key,) in target.rows("public.flat")] == [*expected, 6]


def test_nothing_sent_after_a_lane_began_at_the_end_is_missed(lane: MakeLane, target: Target, topic: Topic) -> None:
    """`latest` is the end at the first start, written down then; not the end when the first message comes."""
    target.create(FLAT)
    d = Debezium()
    topic.send(five(d))
    made = lane("two-phase", source={"start": "latest"})
    made.run_until_caught_up()
    topic.send([d.create(FLAT, {"id": 6, "v": "a"})])
    made.run_until_caught_up()
    assert [key for (key,) in target.rows("public.flat")] == [6]


def test_a_start_that_kafka_does_not_have_is_refused(lane: MakeLane, target: Target, topic: Topic) -> None:
    topic.send(five(Debezium()))
    with pytest.raises(ConfigInvalid, match=r"offset 6 is outside what Kafka has, 0\.\.5"):
        lane("two-phase", source={"start": {topic.name: {0: 6}}}).run_until_caught_up()
    assert target.ledger() is None


def test_a_topic_that_does_not_exist_is_named(lane: MakeLane, target: Target) -> None:
    with pytest.raises(EnvironmentMissing, match="Kafka has no topic not-there") as missing:
        lane("two-phase", source={"topics": ["not-there"]}).run_until_caught_up()
    assert "kafka-topics.sh" in str(missing.value)


def test_total_order_needs_single_partitions(lane: MakeLane, target: Target, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    with pytest.raises(ConfigInvalid, match=f"{topic.name} has more") as refused:
        lane("two-phase", topics=(topic,)).run_until_caught_up()
    assert "order: partition" in str(refused.value)


def test_a_table_that_comes_in_two_topics_ends_as_the_source_left_it(
    lane: MakeLane, target: Target, new_topic: NewTopic
) -> None:
    """Within an epoch the source's order counts, whichever topic sorts first and whichever was written first."""
    target.create(FLAT)
    one, other = sorted((new_topic(), new_topic()), key=lambda topic: topic.name)
    d = Debezium()
    changes = []
    for number in range(40):
        changes += [d.begin(), d.update(FLAT, {"id": number % 4, "v": f"{number}"})]
    last = [d.delete(FLAT, {"id": 0, "v": ""}), d.create(FLAT, {"id": 5, "v": ""})]
    other.send(changes[1::4])
    one.send(changes[3::4])
    other.send(last[:1])
    one.send(last[1:])
    lane("two-phase", topics=(other, one)).run_until_caught_up()
    assert {key: row["v"] for (key,), row in target.rows("public.flat").items()} == {1: "37", 2: "38", 3: "39", 5: ""}
    total = target.ledger_sum()
    assert (total.consumed, total.adds_up) == (42, True)


def test_children_and_parents_of_two_topics(lane: MakeLane, target: Target, new_topic: NewTopic) -> None:
    """The faithful plan needs the order of both: each child is deleted before its parent is."""
    target.create(PARENT, CHILD)
    parents, children = new_topic(), new_topic()
    d = Debezium()
    for number in range(20):
        parents.send([d.create(PARENT, {"id": number, "v": "a"})])
        children.send([d.create(CHILD, {"id": number, "parent": number})])
        if number % 3 == 0:
            children.send([d.delete(CHILD, {"id": number, "parent": number})])
            parents.send([d.delete(PARENT, {"id": number, "v": "a"})])
        elif number % 3 == 2:
            children.send([d.update(CHILD, {"id": number, "parent": number - 1})])
            parents.send([d.delete(PARENT, {"id": number, "v": "a"})])
    lane("ledger", topics=(parents, children)).run_until_caught_up()
    questions(target, parents, children)


def test_a_topic_that_comes_later_is_read_from_its_beginning(
    lane: MakeLane, target: Target, new_topic: NewTopic, request: pytest.FixtureRequest
) -> None:
    """With a pattern: Debezium makes a topic for each table, and a table may be new."""
    target.create(FLAT, PARENT)
    prefix, d = target.lane, Debezium()
    first = new_topic(name=f"{prefix}-flat")
    first.send(five(d))
    made = lane("two-phase", source={"topic_pattern": f"{prefix}-.*"})
    made.run_until_caught_up()
    later = new_topic(name=f"{prefix}-parent")
    later.send([d.create(PARENT, {"id": 1, "v": "a"})])
    first.send([d.create(FLAT, {"id": 6, "v": "a"})])
    made.run_until_caught_up()
    questions(target, first, later)
    made.run_until_caught_up()
    questions(target, first, later)


def test_a_topic_that_comes_while_the_lane_runs(lane: MakeLane, target: Target, new_topic: NewTopic) -> None:
    target.create(FLAT, PARENT)
    prefix, d = target.lane, Debezium()
    first = new_topic(name=f"{prefix}-flat")
    first.send(five(d))
    made = lane("two-phase", source={"topic_pattern": f"{prefix}-.*", "options": {"kafka.metadata.max.age.ms": 500}})
    made.start()
    made.until_caught_up(first)
    later = new_topic(name=f"{prefix}-parent")
    later.send([d.create(PARENT, {"id": 1, "v": "a"})])
    made.until_caught_up(first, later)
    made.stop()
    questions(target, first, later)


@pytest.mark.costly(1)
@pytest.mark.parametrize("mode", list(CommitMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("deleted", "start"), [(0, None), (2, None), (0, 3)], ids=["whole", "deleted", "named"])
def test_a_topic_that_is_added(
    mode: CommitMode, deleted: int, start: int | None, lane: MakeLane, target: Target, kafka: Kafka, new_topic: NewTopic
) -> None:
    """Its first messages are gone, or an offset is named: a new checkpoint begins there. An epoch is pending then."""
    target.create(FLAT, PARENT)
    d, first, later = Debezium(), new_topic(), new_topic()
    first.send(five(d))
    later.send([d.create(PARENT, {"id": number, "v": "a"}) for number in range(5)])
    made = lane(mode, topics=(first,))
    made.run_until_caught_up()
    first.send([d.create(FLAT, {"id": 6, "v": "a"})])
    if deleted:
        forget(kafka, later.name, deleted)
    source: dict[str, Any] = {"topics": [first.name, later.name]}
    if start is not None:
        source["start"] = {first.name: {0: 0}, later.name: {0: start}}
    made = made.changed(source=source)
    made.run_until_caught_up()
    first.send([d.create(FLAT, {"id": 7, "v": "a"})])
    later.send([d.create(PARENT, {"id": 7, "v": "a"})])
    made.run_until_caught_up()
    assert len(target.rows("public.flat")) == 7
    assert sorted(target.rows("public.parent")) == [(number,) for number in (*range(start or deleted, 5), 7)]
    assert target.prepared() == []
    ((consumed,),) = target.execute("select sum(consumed) from surelane.ledger")
    assert consumed == 7 + 6 - (start or deleted)


def test_the_ledger_knows_both_ends_of_every_epoch(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(FLAT)
    topic.send(five(Debezium()))
    lane("two-phase", epoch={"max_messages": 2}).run_until_caught_up()
    spans = [(row.start_position[topic.name]["0"], row.end_position[topic.name]["0"]) for row in target.epochs()]
    assert spans == [(0, 2), (2, 4), (4, 5)]
    last = target.ledger()
    assert last is not None
    assert last.span.end == Offsets.of({TopicPartition(topic.name, 0): 5})
    assert last.source_from is not None
    assert last.source_from <= (last.source_to or last.source_from)
    equals_oracle(target, topic)
