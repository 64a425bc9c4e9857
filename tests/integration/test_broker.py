"""The broker as the lane's driver asks it, against a real one."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from app.config.settings import SourceSettings, StartAt
from app.errors import ConfigInvalid, EnvironmentMissing, Unreachable
from app.kafka.broker import REQUEST_TIMEOUT_SECONDS, Broker, Watermarks
from app.kafka.lag import measure
from app.kafka.unread import First, UnreadMessages
from app.model.offsets import Offsets, Position, TopicPartition
from tests.fix_lane import ROOT
from tests.waiting import eventually
from tools.devstack import Kafka

Open = Callable[..., Broker]
#: of a broker, so many that librdkafka's DescribeCluster ends the process in most runs: it did in one of five
RESTARTS = 6


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """A topic of this test's own, with one partition."""
    name = f"broker-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name)
    return name


@pytest.fixture
def connect(kafka: Kafka) -> Iterator[Open]:
    """Opens brokers and closes them."""
    opened: list[Broker] = []

    def open_broker(*topics: str, **more: str) -> Broker:
        opened.append(
            Broker(SourceSettings.model_validate({"bootstrap_servers": kafka.bootstrap, "topics": topics, **more}))
        )
        return opened[-1]

    yield open_broker
    for broker in opened:
        broker.close()


def send(kafka: Kafka, topic: str, count: int, **config: str) -> Producer:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **config})
    if config:
        producer.init_transactions()
        producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, key=b"k", value=str(number).encode(), headers=[("h", b"x")])
    producer.flush()
    return producer


def test_identity(kafka: Kafka, topic: str, connect: Open) -> None:
    broker = connect(topic)
    assert broker.cluster_id() == connect(topic).cluster_id()
    before = broker.topics()[topic]
    kafka.delete_topic(topic)
    kafka.create_topic(topic, 2)
    after = broker.topics()[topic]
    assert (before.partitions, after.partitions) == (1, 2)
    assert before.topic_id != after.topic_id, "a topic made again is another topic"


def test_a_pattern_matches_whole_names(kafka: Kafka, topic: str, connect: Open) -> None:
    kafka.create_topic(f"{topic}.a")
    assert set(connect(topic_pattern=rf"{topic}\..*").topics()) == {f"{topic}.a"}
    assert set(connect(topic_pattern=rf"{topic}(\.a)?").topics()) == {topic, f"{topic}.a"}


def test_asking_for_a_missing_topic_does_not_make_it(kafka: Kafka, connect: Open) -> None:
    name = f"missing-{uuid.uuid4().hex[:8]}"
    with pytest.raises(EnvironmentMissing, match=name) as caught:
        connect(name).topics()
    assert "--create" in str(caught.value)
    with pytest.raises(EnvironmentMissing):
        connect(topic_pattern=name).partitions()
    assert not kafka.has_topic(name)


def test_watermarks_end_before_an_open_transaction(kafka: Kafka, topic: str, connect: Open) -> None:
    broker, tp = connect(topic), TopicPartition(topic, 0)
    send(kafka, topic, 3)
    assert broker.watermarks({tp}) == {tp: Watermarks(0, 3)}
    producer = send(kafka, topic, 2, **{"transactional.id": topic})
    assert broker.watermarks({tp}) == {tp: Watermarks(0, 3)}
    assert [message.value for message in broker.messages(Position(topic, 0, 0), 10)] == [b"0", b"1", b"2"]
    producer.commit_transaction()
    eventually(lambda: broker.watermarks({tp})[tp].high == 6, 30, "the transaction's two messages and its marker")
    assert len(broker.messages(Position(topic, 0, 0), 10)) == 5


def test_start_offsets(kafka: Kafka, topic: str, connect: Open) -> None:
    broker, tp = connect(topic), TopicPartition(topic, 0)
    send(kafka, topic, 3)
    assert broker.start_offsets(StartAt.EARLIEST) == Offsets.of({tp: 0})
    assert broker.start_offsets(StartAt.LATEST) == Offsets.of({tp: 3})
    assert broker.start_offsets(Offsets.of({tp: 2})) == Offsets.of({tp: 2})


@pytest.mark.parametrize(("partition", "offset", "problem"), [(0, 4, "0..3"), (1, 0, "no such partition")])
def test_start_offsets_that_kafka_does_not_have(
    kafka: Kafka, topic: str, connect: Open, partition: int, offset: int, problem: str
) -> None:
    send(kafka, topic, 3)
    with pytest.raises(ConfigInvalid, match=problem):
        connect(topic).start_offsets(Offsets.of({TopicPartition(topic, partition): offset}))


def test_messages_are_whole(kafka: Kafka, topic: str, connect: Open) -> None:
    send(kafka, topic, 3)
    broker = connect(topic)
    found = broker.messages(Position(topic, 0, 1), 1)[0]
    assert (found.position, found.key, found.value) == (Position(topic, 0, 1), b"k", b"1")
    assert found.headers == (("h", b"x"),)
    assert found.timestamp_ms is not None
    assert abs(found.timestamp_ms / 1000 - time.time()) < 60
    assert broker.messages(Position(topic, 0, 3), 5) == [], "the end is no error"
    with pytest.raises(EnvironmentMissing, match="does not have this offset"):
        broker.messages(Position(topic, 0, 99), 1)


def test_lag(kafka: Kafka, topic: str, connect: Open) -> None:
    broker, tp = connect(topic), TopicPartition(topic, 0)
    assert measure(broker, Offsets.of({tp: 0})).messages == 0
    send(kafka, topic, 3)
    behind = measure(broker, Offsets.of({tp: 1}))
    assert behind.by_partition == {tp: 2}
    assert behind.seconds is not None
    assert 0 <= behind.seconds < 60
    assert measure(broker, Offsets.of({tp: 3})).seconds == 0


def test_nothing_but_markers_left_is_no_lag(kafka: Kafka, topic: str, connect: Open) -> None:
    broker, tp = connect(topic), TopicPartition(topic, 0)
    send(kafka, topic, 1, **{"transactional.id": topic}).commit_transaction()
    eventually(lambda: broker.watermarks({tp})[tp].high == 2, 30, "the transaction's marker")
    lag = measure(broker, Offsets.of({tp: 1}))
    assert (lag.messages, lag.seconds) == (0, 0)


def test_unread_messages_stop_at_the_requested_end(kafka: Kafka, topic: str, connect: Open) -> None:
    """The offset of a transaction's marker holds no message: the next one lies behind the end."""
    unread = UnreadMessages(connect(topic))
    producer = send(kafka, topic, 1, **{"transactional.id": topic})
    producer.commit_transaction()
    producer.begin_transaction()
    producer.produce(topic, b"behind")
    producer.commit_transaction()
    eventually(lambda: unread.ends({TopicPartition(topic, 0)}) == {TopicPartition(topic, 0): 4}, 30, "both markers")
    assert unread.first(Position(topic, 0, 1), 2) is None
    assert unread.first(Position(topic, 0, 1), 3) == First(place=None, is_read=False)


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Kafka]:
    """Its broker is put out, and elected anew, when it was silent for 2 s; connections to it stay."""
    made = Kafka(
        tmp_path / "kafka", properties={"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
    )
    made.start()
    yield made
    made.stop()


def silenced(kafka: Kafka) -> bool:
    """For longer than its session; whether it is put out for that depends on what it does first, once it goes on."""
    pid, end = kafka.pid, time.monotonic() + 4
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: time.monotonic() > end, why="its session to time out")
    os.kill(pid, signal.SIGCONT)
    return True


def seen(condition: Callable[[], bool]) -> bool:
    """Whether it comes true in a while."""
    with suppress(AssertionError):
        return eventually(condition, 3)
    return False


def test_a_leader_elected_anew(forgetful: Kafka) -> None:
    """librdkafka goes on asking with the term that it knows, and is refused; the broker's answer is right at once."""
    forgetful.create_topic("kept")
    send(forgetful, "kept", 3)
    tp = TopicPartition("kept", 0)
    plain = AdminClient({"bootstrap.servers": forgetful.bootstrap})

    def refused() -> bool:
        (answer,) = plain.list_offsets({KafkaPartition("kept", 0): OffsetSpec.for_timestamp(0)}).values()
        error = answer.exception()
        return isinstance(error, KafkaException) and error.args[0].code() == KafkaError.FENCED_LEADER_EPOCH

    source = SourceSettings(bootstrap_servers=forgetful.bootstrap, topics=("kept",))
    with Broker(source) as broker, Broker(source) as eager:

        def asked_all_the_while() -> bool:
            assert eager.watermarks({tp}) == {tp: Watermarks(0, 3)}
            return refused()

        assert broker.watermarks({tp}) == {tp: Watermarks(0, 3)}
        assert not asked_all_the_while()
        for _ in range(2):
            eventually(lambda: silenced(forgetful) and seen(asked_all_the_while), 120, "an election")
            assert broker.watermarks({tp}) == {tp: Watermarks(0, 3)}
            plain.list_topics(timeout=10)


#: asks for cluster and topics, many times at once, until it is ended
ASKING = """
import sys
from app.config.settings import SourceSettings
from app.errors import EnvironmentMissing, Unreachable
from app.kafka.broker import Broker

with Broker(SourceSettings(bootstrap_servers=sys.argv[1], topics=("kept",))) as broker:
    print(broker.cluster_id(), flush=True)
    while True:
        try:
            for answer in [broker.ask_identity(["kept"]) for _ in range(32)]:
                assert answer()[0] == broker.cluster_id()
        except (EnvironmentMissing, Unreachable) as error:
            print(error, flush=True)
"""


def test_a_broker_that_restarts_does_not_end_the_process(forgetful: Kafka) -> None:
    """While it stops and starts it may know of no broker at all, itself included."""
    forgetful.create_topic("kept")
    command = [sys.executable, "-c", ASKING, forgetful.bootstrap]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline(), "its first answer"
        # a quick machine restarts it six times before one request has given up
        begin, restarts = time.monotonic(), 0
        while restarts < RESTARTS or time.monotonic() < begin + 1.5 * REQUEST_TIMEOUT_SECONDS:
            forgetful.restart()
            restarts += 1
        is_alive = asking.poll() is None
        asking.kill()
        words, errors = asking.communicate()
    assert is_alive, errors.decode()
    assert b"does not answer" in words, "it has asked all the while"


def test_retention(kafka: Kafka, connect: Open) -> None:
    name = f"kept-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, retention_ms="60000", retention_bytes="1000000", cleanup_policy="compact,delete")
    kept = connect(name).retention(name)
    assert (kept.milliseconds, kept.bytes, kept.compacted) == (60_000, 1_000_000, True)


def test_a_broker_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.kafka.broker.REQUEST_TIMEOUT_SECONDS", 1.0)
    with Broker(SourceSettings(bootstrap_servers="127.0.0.1:1", topics=("a",))) as broker:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1.*refused"):
            broker.topics()
        with pytest.raises(Unreachable):
            broker.cluster_id()
