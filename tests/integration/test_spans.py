"""Exact spans out of a real topic: every message of them, no other, whatever the offsets between hold."""

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from app.config.settings import SourceSettings
from app.errors import Diverged
from app.kafka.spans import Batch, SpanReader
from app.model.offsets import Offsets, Span, TopicPartition
from tests.fix_topic import NewTopic, Topic
from tests.messages import Message
from tests.waiting import eventually


def message(text: str) -> Message:
    return Message(key=text.encode(), value=text.encode())


def messages(first: int, count: int) -> list[Message]:
    return [message(str(number)) for number in range(first, first + count)]


def span(first: int, end: int, *topics: Topic) -> Span:
    """The same of each topic."""
    tps = [TopicPartition(topic.name, 0) for topic in topics]
    return Span(start=Offsets.of(dict.fromkeys(tps, first)), end=Offsets.of(dict.fromkeys(tps, end)))


def texts(batches: list[Batch]) -> list[str]:
    return [(value or b"").decode() for batch in batches for value in batch.values]


def offsets(batches: list[Batch]) -> list[int]:
    return [offset for batch in batches for offset in batch.offsets]


@pytest.fixture
def reader(topic: Topic) -> Iterator[SpanReader]:
    made = SpanReader(SourceSettings(bootstrap_servers=topic.kafka.bootstrap, topics=(topic.name,)))
    yield made
    made.close()


def test_one_span_after_the_other_and_some_once_more(reader: SpanReader, topic: Topic) -> None:
    topic.send(messages(0, 50))
    for first, end in ((0, 10), (10, 11), (11, 11), (11, 50), (5, 7), (7, 50), (0, 1), (30, 31)):
        found = reader.read(span(first, end, topic))
        assert offsets(found) == list(range(first, end))
        assert texts(found) == [str(number) for number in range(first, end)]


def test_more_than_one_call_gives(reader: SpanReader, topic: Topic) -> None:
    topic.send(messages(0, 25_000))
    assert offsets(reader.read(span(0, 24_000, topic))) == list(range(24_000))
    topic.send(messages(25_000, 10))
    assert offsets(reader.read(span(24_000, 25_010, topic))) == list(range(24_000, 25_010))


def test_offsets_that_hold_nothing(reader: SpanReader, topic: Topic) -> None:
    """Markers of Kafka's transactions, messages of those that were aborted; at a span's begin, in it, at its end."""
    for number in range(4):
        topic.send_transaction([message(f"{number} yes")])
        topic.send_transaction([message(f"{number} no")] * 2, abort=True)
    eventually(lambda: topic.end == 20, 30, "the last marker: 5 offsets a round")
    assert texts(reader.read(span(0, 20, topic))) == [f"{number} yes" for number in range(4)]
    for first, end in ((1, 5), (2, 5), (4, 6), (17, 20), (16, 20), (1, 20), (0, 3), (18, 20)):
        wanted = [f"{number} yes" for number in range(4) if first <= 5 * number < end]
        assert texts(reader.read(span(first, end, topic))) == wanted, (first, end)
    topic.send(messages(7, 2))
    assert texts(reader.read(span(20, 22, topic))) == ["7", "8"]


def test_several_topics_each_as_far_as_it_is_wanted(new_topic: NewTopic) -> None:
    one, other = new_topic(), new_topic()
    one.send(messages(0, 30))
    other.send(messages(100, 5))
    made = SpanReader(SourceSettings(bootstrap_servers=one.kafka.bootstrap, topics=(one.name, other.name)))
    tps = [TopicPartition(topic.name, 0) for topic in (one, other)]

    def read(*places: tuple[int, int]) -> dict[str, list[str]]:
        start = Offsets.of({tp: first for tp, (first, _) in zip(tps, places, strict=True)})
        end = Offsets.of({tp: end for tp, (_, end) in zip(tps, places, strict=True)})
        return {batch.tp.topic: texts([batch]) for batch in made.read(Span(start=start, end=end))}

    assert read((0, 10), (0, 0)) == {one.name: [str(number) for number in range(10)]}
    assert read((10, 12), (0, 5)) == {one.name: ["10", "11"], other.name: [str(number) for number in range(100, 105)]}
    assert read((12, 30), (5, 5)) == {one.name: [str(number) for number in range(12, 30)]}
    other.send(messages(200, 1))
    assert read((30, 30), (5, 6)) == {other.name: ["200"]}
    made.close()


def test_what_retention_has_taken_is_missed(reader: SpanReader, topic: Topic) -> None:
    topic.send(messages(0, 20))
    admin = AdminClient({"bootstrap.servers": topic.kafka.bootstrap})
    for done in admin.delete_records([KafkaPartition(topic.name, 0, 10)]).values():
        done.result()
    with pytest.raises(Diverged, match="Kafka no longer has messages"):
        reader.read(span(5, 20, topic))
    assert offsets(reader.read(span(10, 20, topic))) == list(range(10, 20))
