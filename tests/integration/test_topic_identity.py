"""Cluster and topics are compared before an epoch is decided, whenever the monitor looks."""

import pytest

from app.config.settings import CommitMode
from app.errors import EnvironmentMissing, TopicChanged, Unreachable, Verdict
from app.kafka import broker as broker_module
from app.kafka.broker import Broker
from app.worker import monitor
from tests.fix_lane import MODES, Hold, MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message
from tests.workload import COUNTER

EPOCH = 10
_DEBEZIUM = Debezium()


def counters(first: int, count: int) -> list[Message]:
    return [_DEBEZIUM.update(COUNTER, {"id": n % 4, "hits": n}) for n in range(first, first + count)]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_made_anew_between_two_looks(
    mode: CommitMode,
    lane: MakeLane,
    target: Target,
    topic: Topic,
    hold: Hold,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An epoch is planned, then the topic is another one: nothing of the epoch is applied."""
    monkeypatch.setattr(monitor, "ROUND_SECONDS", 3600.0)
    target.create(COUNTER)
    running = lane(mode)
    topic.send(counters(0, EPOCH))
    running.start()
    running.until_caught_up(topic)
    position, rows = target.position(), target.rows("public.counter")
    held = hold("epoch-start")
    topic.send(counters(EPOCH, 1))
    held.reached()
    topic.recreate()
    topic.send(counters(100, 2 * EPOCH))
    held.release()
    error = running.join()
    assert isinstance(error, TopicChanged), error
    assert (target.position(), target.rows("public.counter"), target.prepared()) == (position, rows, [])


def test_a_plan_that_goes_back(lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark plans to the end of another topic, which is before the lane's position: the epoch does not begin."""
    monkeypatch.setattr(monitor, "ROUND_SECONDS", 3600.0)
    target.create(COUNTER)
    running = lane(CommitMode.LEDGER)
    topic.send(counters(0, EPOCH))
    running.start()
    running.until_caught_up(topic)
    position, rows = target.position(), target.rows("public.counter")
    topic.recreate()
    topic.send(counters(100, 1))
    error = running.join()
    assert isinstance(error, TopicChanged), error
    assert "is not known" in error.message, "what the lane had yet to read is looked for"
    assert (target.position(), target.rows("public.counter")) == (position, rows)


def test_a_broker_that_does_not_answer(lane: MakeLane, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch is tried again; it never passes without an answer."""
    monkeypatch.setattr(broker_module, "REQUEST_TIMEOUT_SECONDS", 1.0)
    with Broker(lane(CommitMode.TWO_PHASE).settings.source) as broker:
        assert list(broker.ask_identity([topic.name])()[1]) == [topic.name]
        topic.kafka.stop()
        try:
            answer = broker.ask_identity([topic.name])
            with pytest.raises(Unreachable) as refused:
                answer()
        finally:
            topic.kafka.start()
        assert refused.value.verdict is Verdict.RETRY


def test_a_topic_that_is_gone(lane: MakeLane, topic: Topic) -> None:
    """Asking for it does not make it."""
    with Broker(lane(CommitMode.TWO_PHASE).settings.source) as broker:
        topic.kafka.delete_topic(topic.name)
        with pytest.raises(EnvironmentMissing):
            broker.ask_identity([topic.name])()
        assert not topic.kafka.has_topic(topic.name)
