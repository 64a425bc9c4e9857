"""`source.order: partition`: lanes side by side, each with a place of its own in ledger and gid."""

import datetime
from decimal import Decimal

import pytest

from app.errors import BadMessage
from app.model.offsets import TopicPartition
from tests import messages as m
from tests.fix_lane import MODES, Hold, MakeLane
from tests.fix_target import Target
from tests.fix_topic import NewTopic
from tests.messages import Debezium, Message, Table
from tests.oracle import equals_oracle, questions

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
ORDER = {"source": {"order": "partition"}}


def at(partition: int, message: Message) -> Message:
    """The message, in that partition."""
    return Message(key=message.key, value=message.value, change=message.change, partition=partition)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_bad_message_stops_its_own_partition_and_costs_the_others_nothing(
    mode: str, lane: MakeLane, target: Target, new_topic: NewTopic
) -> None:
    """The others may be an epoch ahead then, and are not applied twice after the fix."""
    target.create(FLAT)
    d, topic = Debezium(), new_topic(partitions=3)
    made = lane(mode, topics=(topic,), guard={"on_skip": "stop"}, **ORDER)
    topic.send([at(number, d.create(FLAT, {"id": number, "v": "a"})) for number in range(3)])
    topic.send([at(1, d.create(FLAT, {"id": 2**31, "v": "too large"}))])
    with pytest.raises(BadMessage) as refused:
        made.run_until_caught_up()
    assert f"lane {made.name}.1: message {topic.name}[1]@1" in str(refused.value)
    assert (1,) not in target.rows("public.flat")
    assert target.prepared() == [], "their locks would be in the way of the fix"
    target.execute("alter table flat alter id type bigint")
    topic.send([at(number, d.update(FLAT, {"id": number, "v": "b"})) for number in range(3)])
    made.run_until_caught_up()
    questions(target, topic, exactly_once=made.exactly_once)


def test_each_partition_prepares_a_transaction_of_its_own(
    lane: MakeLane, target: Target, new_topic: NewTopic, hold: Hold
) -> None:
    """Stopped where the checkpoint has decided and nothing is committed."""
    target.create(FLAT)
    d, topic = Debezium(), new_topic(partitions=2)
    made = lane("two-phase", topics=(topic,), **ORDER)
    topic.send([at(number, d.create(FLAT, {"id": number, "v": "a"})) for number in range(2)])
    held = hold("before-commit")
    made.start()
    held.reached()
    assert sorted(target.prepared()) == [f"surelane:{made.name}.{number}:1:0" for number in range(2)]
    assert target.rows("public.flat") == {}
    held.release()
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)


def test_lanes_side_by_side_read_the_schemas_of_their_own_messages(
    lane: MakeLane, target: Target, new_topic: NewTopic
) -> None:
    """With envelope each lane fetches a message of each shape, all at the same moment."""
    kinds = (m.DATE, m.numeric(9, 2), m.numeric(9, 4), m.BYTEA)
    values = (datetime.date(2024, 2, 29), Decimal("1.50"), Decimal("1.5000"), b"x")
    tables = [Table(f"t{number}", {"id": m.INT, "v": kind}) for number, kind in enumerate(kinds)]
    target.create(*tables)
    d, topic = Debezium(envelope=True), new_topic(partitions=4)
    made = lane("two-phase", topics=(topic,), **ORDER)
    topic.send(
        at(partition, d.create(table, {"id": partition, "v": value}))
        for partition in range(4)
        for table, value in zip(tables, values, strict=True)
    )
    made.run_until_caught_up()
    questions(target, topic)


def test_a_partition_that_comes_later_gets_a_lane(lane: MakeLane, target: Target, new_topic: NewTopic) -> None:
    """While it runs: the lanes are opened again, the new one begins at the new partition's beginning."""
    target.create(FLAT)
    d, topic = Debezium(), new_topic(partitions=1)
    made = lane("two-phase", topics=(topic,), source={**ORDER["source"], "options": {"kafka.metadata.max.age.ms": 500}})
    topic.send([at(0, d.create(FLAT, {"id": 0, "v": "a"}))])
    made.start()
    made.until_caught_up(topic)
    topic.add_partitions(3)
    topic.send([at(number, d.create(FLAT, {"id": 10 + number, "v": "a"})) for number in range(3)])
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)
    assert {row.lane for row in target.epochs()} == {f"{made.name}.{number}" for number in range(3)}


def test_a_partition_without_messages_has_its_start_in_the_ledger(
    lane: MakeLane, target: Target, new_topic: NewTopic
) -> None:
    target.create(FLAT)
    d, topic = Debezium(), new_topic(partitions=2)
    topic.send([at(0, d.create(FLAT, {"id": 0, "v": "a"}))])
    made = lane("two-phase", topics=(topic,), **ORDER)
    made.run_until_caught_up()
    assert dict(target.position()) == {TopicPartition(topic.name, 0): 1, TopicPartition(topic.name, 1): 0}
    made.run_until_caught_up()
    equals_oracle(target, topic)
