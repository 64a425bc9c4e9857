"""What no longer fits together is noticed before anything is applied: ledger, checkpoint, topic and messages."""

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from app.errors import Diverged, EnvironmentMissing, ExitStatus, SurelaneError, TopicChanged
from app.kafka.broker import Broker
from app.recover.from_ledger import recover_from_ledger
from tests import messages as m
from tests.fix_lane import LaneUnderTest, MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message, Table
from tests.oracle import equals_oracle, questions
from tools.devstack import Kafka

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
d = Debezium()
REWIND = """
    update surelane.ledger set end_position = jsonb_build_object(:topic, jsonb_build_object('0', cast(:offset as int)))
    where lane = :lane and (generation, epoch) = (
        select generation, epoch from surelane.ledger where lane = :lane order by 1 desc, 2 desc limit 1)
"""


def rows(first: int, last: int) -> list[Message]:
    """Creates of these rows."""
    return [d.create(FLAT, {"id": number, "v": "a"}) for number in range(first, last + 1)]


def rewind(target: Target, topic: Topic, offset: int) -> None:
    """Make the ledger say that the lane ended there."""
    target.execute(REWIND, topic=topic.name, offset=offset, lane=target.lane)


@pytest.fixture
def caught_up(lane: MakeLane, target: Target, topic: Topic) -> LaneUnderTest:
    """A lane that has applied ten rows in two epochs."""
    target.create(FLAT)
    topic.send(rows(1, 10))
    made = lane("two-phase", epoch={"max_messages": 5})
    made.run_until_caught_up()
    return made


def test_a_target_that_lacks_an_epoch_stops_the_start_with_a_plan(
    caught_up: LaneUnderTest, target: Target, topic: Topic
) -> None:
    """And the plan works: from the ledger's own end, everything is applied again."""
    target.execute("delete from surelane.ledger where epoch = 1")
    target.execute("delete from flat where id > 5")
    topic.send(rows(11, 12))
    with pytest.raises(Diverged) as refused:
        caught_up.run_until_caught_up()
    assert refused.value.exit_status is ExitStatus.DIVERGED
    for word in (
        target.lane,
        f"{topic.name}[0]@5",
        f"{topic.name}[0]@10",
        "recover --from-ledger",
        "restore-and-replay",
    ):
        assert word in str(refused.value)
    assert sorted(target.rows("public.flat")) == [(number,) for number in range(1, 6)]

    settings = caught_up.settings
    with Broker(settings.source) as broker:
        (plan,) = recover_from_ledger(settings, target.as_lane, broker, dry_run=False)
    assert plan.messages == 7
    caught_up.run_until_caught_up()
    questions(target, topic)


def test_a_ledger_that_jumps_while_the_lane_runs_stops_it(
    caught_up: LaneUnderTest, target: Target, topic: Topic
) -> None:
    """The database was restored under the running lane: the next epoch would leave a hole."""
    caught_up.start()
    topic.send(rows(11, 11))
    caught_up.until_caught_up(topic)
    rewind(target, topic, 8)
    topic.send(rows(12, 12))
    error = caught_up.join()
    assert isinstance(error, Diverged)
    for word in (target.lane, f"starts at {topic.name}[0]@11", f"ends at {topic.name}[0]@8", "Nothing of this epoch"):
        assert word in str(error)
    assert f"lane {target.lane}, as in ops/runbooks/restore-and-replay.md" in str(error)
    assert f"# from {topic.name}[0]@8;" in str(error)
    assert (12,) not in target.rows("public.flat")
    assert target.prepared() == []


def test_a_ledger_without_its_rows_is_another_database(caught_up: LaneUnderTest, target: Target, topic: Topic) -> None:
    target.execute("delete from surelane.ledger")
    with pytest.raises(Diverged, match="ledger ends at nothing"):
        caught_up.run_until_caught_up()
    equals_oracle(target, topic)


def changed(made: LaneUnderTest) -> SurelaneError:
    """What the start says."""
    with pytest.raises(TopicChanged) as refused:
        made.run_until_caught_up()
    return refused.value


def test_a_topic_made_again_stops_the_start(caught_up: LaneUnderTest, target: Target, topic: Topic) -> None:
    """Its offsets mean other messages now, even where they exist."""
    topic.recreate()
    topic.send(rows(20, 40))
    error = changed(caught_up)
    assert error.exit_status is ExitStatus.TOPIC_CHANGED
    for word in (target.lane, topic.name, "deleted and created again", "what to do"):
        assert word in str(error)
    assert len(target.rows("public.flat")) == 10


def test_a_topic_made_again_stops_the_running_lane(caught_up: LaneUnderTest, target: Target, topic: Topic) -> None:
    caught_up.start()
    topic.send(rows(11, 11))
    caught_up.until_caught_up(topic)
    topic.recreate()
    topic.send(rows(20, 40))
    error = caught_up.join()
    # between its end and its new beginning it is simply missing; whichever is seen first, the lane stops
    assert isinstance(error, TopicChanged | Diverged | EnvironmentMissing)
    assert len(target.rows("public.flat")) == 11
    changed(caught_up)


def test_another_cluster_stops_the_start(caught_up: LaneUnderTest, target: Target) -> None:
    target.execute("update surelane.lane set cluster_id = 'another'")
    assert "pinned to Kafka cluster another" in str(changed(caught_up))


def test_messages_that_kafka_deleted_before_they_were_read_stop_the_lane(
    caught_up: LaneUnderTest, target: Target, topic: Topic, kafka: Kafka
) -> None:
    topic.send(rows(11, 20))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for done in admin.delete_records([KafkaPartition(topic.name, 0, 15)]).values():
        done.result()
    with pytest.raises(Diverged, match="Kafka no longer has messages") as refused:
        caught_up.run_until_caught_up()
    assert "what to do" in str(refused.value)
    assert len(target.rows("public.flat")) == 10


def test_a_checkpoint_of_another_program_is_left_alone(lane: MakeLane, target: Target, topic: Topic) -> None:
    made = lane("two-phase")
    (made.checkpoint / "offsets").mkdir(parents=True)
    (made.checkpoint / "offsets" / "0").write_text('v1\n{}\n{"other":{"0":5}}')
    with pytest.raises(Diverged, match="another program wrote it"):
        made.run_until_caught_up()
    assert made.checkpoint_files.planned() == [0]
