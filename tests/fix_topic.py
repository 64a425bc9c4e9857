"""Fresh topics, and what was sent to them: every message with the offset Kafka gave it."""

import itertools
import threading
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pytest
from confluent_kafka import IsolationLevel, KafkaError, Producer
from confluent_kafka import Message as KafkaMessage
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec

from app.model.offsets import Position, TopicPartition
from tests.messages import Message
from tests.waiting import eventually
from tools.devstack import Kafka

TIMEOUT_SECONDS = 30.0
#: order of sending over all topics
_sending = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A message that a read_committed reader will see."""

    message: Message
    position: Position
    #: rises with each message that is sent, whatever the topic
    number: int

    @property
    def tp(self) -> TopicPartition:
        """The partition it is in."""
        return TopicPartition(self.position.topic, self.position.partition)


class Topic:
    """One topic; `sent` has everything that was sent and committed, in the order of sending."""

    def __init__(self, kafka: Kafka, name: str, partitions: int) -> None:
        self.kafka, self.name, self.partitions = kafka, name, partitions
        self.sent: list[Sent] = []
        #: locked while messages are on their way: a lane may have applied them before they are in `sent`
        self.sending = threading.RLock()
        self._producer: Producer | None = None
        self._transactional: Producer | None = None
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})

    def send(self, messages: Iterable[Message]) -> list[Sent]:
        """Send, in order, and wait until Kafka has them all."""
        with self.sending:
            if self._producer is None:
                self._producer = Producer(self._settings())
            sent = self._produce(self._producer, messages)
            self.sent += sent
        return sent

    def send_at(self, stamped: Iterable[tuple[Message, int]]) -> list[Sent]:
        """The same, each with a timestamp, milliseconds since 1970."""
        pairs = list(stamped)
        with self.sending:
            if self._producer is None:
                self._producer = Producer(self._settings())
            sent = self._produce(self._producer, [message for message, _ in pairs], [stamp for _, stamp in pairs])
            self.sent += sent
        return sent

    def send_transaction(self, messages: Iterable[Message], *, abort: bool = False) -> list[Sent]:
        """Send in one Kafka transaction: its end is a marker, which takes an offset. An aborted one stays hidden."""
        if self._transactional is None:
            self._transactional = Producer({**self._settings(), "transactional.id": uuid.uuid4().hex})
            self._transactional.init_transactions(TIMEOUT_SECONDS)
        with self.sending:
            self._transactional.begin_transaction()
            sent = self._produce(self._transactional, messages)
            if abort:
                self._transactional.abort_transaction(TIMEOUT_SECONDS)
                return sent
            self._transactional.commit_transaction(TIMEOUT_SECONDS)
            self.sent += sent
        return sent

    @property
    def end(self) -> int:
        """Offset after the last message or marker of partition 0."""
        return self.ends[TopicPartition(self.name, 0)]

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The same of every partition."""
        # who leads, and for which term, is not looked up for the question itself
        self._admin.list_topics(self.name, timeout=TIMEOUT_SECONDS)
        wanted = {KafkaPartition(self.name, number): OffsetSpec.latest() for number in range(self.partitions)}
        answers = self._admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)  # pyright: ignore[reportArgumentType]
        found = {TopicPartition(tp.topic, tp.partition): answer.result().offset for tp, answer in answers.items()}
        return dict(sorted(found.items()))

    def add_partitions(self, count: int) -> None:
        """Give the topic more partitions, so that it has `count`."""
        for done in self._admin.create_partitions([NewPartitions(self.name, count)]).values():
            done.result()
        eventually(lambda: len(self._admin.list_topics(self.name).topics[self.name].partitions) == count)
        self.partitions = count
        self._producer = self._transactional = None  # they remember how many there were

    def recreate(self) -> None:
        """Delete the topic and make another one of its name."""
        self.kafka.delete_topic(self.name)
        self.kafka.create_topic(self.name, self.partitions)
        self.restart()

    def restart(self) -> None:
        """Another program deletes it and makes it again."""
        self.sent.clear()
        self._producer = self._transactional = None

    def _settings(self) -> dict[str, object]:
        return {"bootstrap.servers": self.kafka.bootstrap, "enable.idempotence": True, "linger.ms": 2, "log_level": 0}

    def _produce(self, producer: Producer, messages: Iterable[Message], stamps: Sequence[int] = ()) -> list[Sent]:
        """`stamps`: none, or one for each; 0 is now."""
        wanted = list(messages)
        offsets: list[int | None] = [None] * len(wanted)
        for index, message in enumerate(wanted):
            self._hand_over(producer, message, _Report(offsets, index), stamps[index] if stamps else 0)
            producer.poll(0)
        left = producer.flush(TIMEOUT_SECONDS)
        assert left == 0, f"Kafka did not take {left} messages within {TIMEOUT_SECONDS:g} s"
        return [self._sent(message, offset) for message, offset in zip(wanted, offsets, strict=True)]

    def _hand_over(self, producer: Producer, message: Message, report: "_Report", stamp: int) -> None:
        producer.produce(
            self.name,
            value=message.value,
            key=message.key,
            partition=self.partition_of(message),
            headers=list(message.headers),
            timestamp=stamp,
            on_delivery=report,
        )

    def partition_of(self, message: Message) -> int:
        """The partition that its key belongs to, unless the message says another."""
        if message.partition is not None:
            return message.partition
        return zlib.crc32(message.key or b"") % self.partitions

    def _sent(self, message: Message, offset: int | None) -> Sent:
        assert offset is not None, f"no report about {message}"
        position = Position(self.name, self.partition_of(message), offset)
        return Sent(message=message, position=position, number=next(_sending))


@dataclass(frozen=True)
class _Report:
    """Kafka's answer about one message."""

    offsets: list[int | None]
    index: int

    def __call__(self, error: KafkaError | None, message: KafkaMessage) -> None:
        assert error is None, error
        self.offsets[self.index] = message.offset()


NewTopic = Callable[..., Topic]


@pytest.fixture
def new_topic(kafka: Kafka) -> NewTopic:
    """Makes topics: `new_topic(partitions=1, name=...)`."""
    kafka.start()  # in case a test before left it stopped

    def make(partitions: int = 1, name: str | None = None) -> Topic:
        name = name or f"cdc-{uuid.uuid4().hex[:10]}"
        kafka.create_topic(name, partitions)
        return Topic(kafka, name, partitions)

    return make


@pytest.fixture
def topic(new_topic: NewTopic) -> Topic:
    """A fresh topic with one partition."""
    return new_topic()


def sending_until(topic: Topic, message: Callable[[int], Message], is_done: Callable[[], bool]) -> Callable[[], bool]:
    """A condition that sends one more message with each look. `message` makes it from a number that is new."""
    numbers = itertools.count(1000 + len(topic.sent))
    return lambda: is_done() or not topic.send([message(next(numbers))])
