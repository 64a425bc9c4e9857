"""ops/runbooks/topic-recreated.md, command by command: a topic that was made again, or has more partitions."""

import pytest

from app.config.settings import CommitMode
from app.db.locks import try_lock
from app.errors import ConfigInvalid, EnvironmentMissing, ExitStatus, TopicChanged
from app.model.offsets import TopicPartition
from tests.fix_lane import MakeLane
from tests.fix_runbook import MakeOperator, Operator, printed, wanted
from tests.fix_target import Target
from tests.fix_topic import NewTopic, Topic
from tests.messages import Debezium, Message
from tests.oracle import equals_oracle
from tests.runbook import commands, of
from tests.workload import COUNTER
from tools.devstack.roles import READER

PAGE = "topic-recreated.md"
EPOCH = 10
_DEBEZIUM = Debezium()
_PINNED = "select cluster_id from surelane.lane where lane = :lane"


def counters(first: int, count: int) -> list[Message]:
    return [_DEBEZIUM.update(COUNTER, {"id": n % 4, "hits": n}) for n in range(first, first + count)]


@pytest.fixture
def stopped(lane: MakeLane, operator: MakeOperator, target: Target, topic: Topic) -> Operator:
    """A lane that has applied one epoch."""
    target.create(COUNTER)
    topic.send(counters(0, EPOCH))
    made = operator(lane(CommitMode.TWO_PHASE))
    made.lane.run_until_caught_up()
    return made


def keep(target: Target, topic: Topic, offset: int, state: str) -> None:
    """An entry of the quarantine at an offset that the new topic has, too."""
    values = {"lane": target.lane, "topic": topic.name, "offset": offset}
    target.execute(
        "insert into surelane.quarantine"
        ' (lane, topic, partition, "offset", headers, attempts, generation, epoch, state)'
        " values (:lane, :topic, 0, :offset, '[]', 3, 1, 0, 'quarantined')",
        **values,
    )
    if state != "quarantined":
        target.execute('update surelane.quarantine set state = :state where "offset" = :offset', state=state, **values)


def test_made_anew(stopped: Operator, target: Target, topic: Topic) -> None:
    """Nothing was missing: the new topic has what came after. The old offsets are nowhere taken for new ones."""
    before, position = list(topic.sent), str(target.position())
    for offset, state in ((2, "discarded"), (5, "quarantined")):
        keep(target, topic, offset, state)
    target.execute(
        "insert into surelane.suspect (lane, stage, span_start, span_end, attempts, losses, cause, error_class)"
        " values (:lane, 'apply', cast(:start as jsonb), cast(:end as jsonb), 2, 0, 'x', 'x')",
        lane=target.lane,
        start=f'{{"{topic.name}": {{"0": 3}}}}',
        end=f'{{"{topic.name}": {{"0": 4}}}}',
    )
    topic.kafka.delete_topic(topic.name)
    with pytest.raises(EnvironmentMissing, match="Kafka has no topic"):
        stopped.lane.run_until_caught_up()
    topic.kafka.create_topic(topic.name, 1)
    topic.restart()
    topic.send(counters(EPOCH, EPOCH))
    with pytest.raises(TopicChanged) as refused:
        stopped.lane.run_until_caught_up()
    assert refused.value.exit_status is ExitStatus.TOPIC_CHANGED
    assert f"lane {target.lane}, as in ops/runbooks/{PAGE}" in str(refused.value)
    assert printed(refused.value.hint) == wanted(PAGE, "Stopped with status 8")
    assert stopped.surelane("recover", "--from-ledger").status == ExitStatus.TOPIC_CHANGED

    onward = f"{topic.name}[0]@0"
    values = {"position": position, "onward": onward, "n": str(EPOCH), "topic": topic.name, "why": "a test"}
    assert stopped.statuses(PAGE, "Stopped with status 8", **values) == [ExitStatus.DIVERGED, 0, 0]
    assert target.rows("public.counter") == {(n % 4,): {"id": n % 4, "hits": n} for n in range(EPOCH + 6, 2 * EPOCH)}
    assert dict(target.position()) == {TopicPartition(topic.name, 0): EPOCH}
    assert target.ledger_sum().consumed == len(before) + len(topic.sent)
    kept = [tuple(row) for row in target.execute('select topic, state from surelane.quarantine order by "offset"')]
    assert [(name.split()[0], " " in name, state) for name, state in kept] == [
        (topic.name, True, "discarded"),
        (topic.name, True, "quarantined"),
    ]
    assert target.execute("select from surelane.suspect") == []
    assert [tuple(row) for row in target.execute("select missing, reason from surelane.gap")] == [(None, "a test")]
    equals_oracle(target, topic)
    assert stopped.statuses(PAGE, "Is the target whole?", source=target.url_as(READER)) == [0]


def test_a_refusal_leaves_what_the_guard_knows(stopped: Operator, target: Target, topic: Topic) -> None:
    """A lane that runs: nothing is changed, also not in the guard's tables, which commit at once."""
    target.execute(
        "insert into surelane.suspect (lane, stage, span_start, span_end, attempts, losses, cause, error_class)"
        " values (:lane, 'apply', '{}', '{}', 2, 0, 'x', 'x')",
        lane=target.lane,
    )
    topic.recreate()
    with target.engine.connect() as running:
        assert try_lock(running, target.lane)
        refused = stopped.surelane("recover", "gap", "--accept", "--reason", "a test")
    assert (refused.status, "is running" in refused.err) == (ExitStatus.REFUSED, True)
    for table, rows in (("suspect", 1), ("attempt", 1), ("gap", 0)):
        assert len(target.execute(f"select from surelane.{table} where lane = :lane", lane=target.lane)) == rows, table
    accepted = stopped.surelane("recover", "gap", "--accept", "--reason", "a test")
    assert (accepted.status, target.execute("select from surelane.suspect")) == (0, [])


def test_the_wrong_cluster(stopped: Operator, target: Target, topic: Topic) -> None:
    ((cluster,),) = target.execute(_PINNED, lane=target.lane)
    target.execute("update surelane.lane set cluster_id = 'another'")
    topic.send(counters(EPOCH, EPOCH))
    assert stopped.statuses(PAGE, "The wrong cluster", other="another", cluster=cluster) == [ExitStatus.DIVERGED]
    with pytest.raises(TopicChanged, match="pinned to Kafka cluster another"):
        stopped.lane.run_until_caught_up()
    assert stopped.surelane("recover", "gap", "--accept", "--reason", "it is the same one").status == 0
    stopped.lane.run_until_caught_up()
    stopped.questions()


def test_partitions_added_to_a_total_order(stopped: Operator, target: Target, topic: Topic) -> None:
    """What is in the new ones has no place in the order: nothing of it is applied, also while the lane runs."""
    lane = stopped.lane.changed(source={"options": {"kafka.metadata.max.age.ms": 500}})
    lane.start()
    topic.send(counters(EPOCH, EPOCH))
    lane.until_caught_up(topic)
    position = target.position()
    topic.add_partitions(2)
    more = [Message(key=one.key, value=one.value, change=one.change, partition=1) for one in counters(2 * EPOCH, 4)]
    topic.send(more)
    for error in (lane.join(), _refused(lane.run_until_caught_up)):
        assert isinstance(error, ConfigInvalid)
        assert PAGE in str(error)
    assert target.position() == position
    topic.kafka.delete_topic(topic.name)
    topic.kafka.create_topic(topic.name, 1)
    topic.partitions = 1
    topic.restart()
    topic.send(counters(2 * EPOCH, 4))
    assert stopped.statuses(PAGE, "Stopped with status 8", why="partitions were added") == [ExitStatus.DIVERGED, 0, 0]
    equals_oracle(target, topic)


def _refused(call: object) -> BaseException:
    assert callable(call)
    with pytest.raises(ConfigInvalid) as refused:
        call()
    return refused.value


def test_fewer_partitions(lane: MakeLane, operator: MakeOperator, target: Target, new_topic: NewTopic) -> None:
    """A lane of its own for each partition: one that is gone would never be checked again."""
    topic = new_topic(partitions=2)
    target.create(COUNTER)
    topic.send(counters(0, EPOCH))
    made = operator(lane(CommitMode.TWO_PHASE, topics=(topic,), source={"order": "partition"}))
    made.lane.run_until_caught_up()
    for partitions, status in ((1, ExitStatus.REFUSED), (2, ExitStatus.OK)):
        topic.kafka.delete_topic(topic.name)
        topic.kafka.create_topic(topic.name, partitions)
        ended = made.surelane("recover", "gap", "--accept", "--reason", "a test")
        assert ended.status == status, ended.err
    topic.restart()
    topic.send(counters(EPOCH, EPOCH))
    made.lane.run_until_caught_up()
    assert dict(target.position()) == topic.ends
    equals_oracle(target, topic)


def test_every_command_of_the_page_is_played_above() -> None:
    played = ("The wrong cluster", "Stopped with status 8", "Is the target whole?")
    assert len(commands(PAGE)) == sum(len(of(PAGE, section)) for section in played)
