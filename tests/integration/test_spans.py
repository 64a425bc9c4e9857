"""Exact spans out of a real topic: every message of them, no other, whatever the offsets between hold."""

import itertools
import random
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from app.config.settings import SourceSettings
from app.errors import Diverged, Unreachable
from app.kafka import gather
from app.kafka.batch import Batch
from app.kafka.block_reader import BlockReader
from app.kafka.exact_reader import ExactReader
from app.kafka.spans import SpanReader
from app.model.offsets import Offsets, Span, TopicPartition
from tests.fix_topic import NewTopic, Topic
from tests.messages import Message
from tests.waiting import eventually


def in_blocks(source: SourceSettings, is_unwanted: Callable[[], bool] = lambda: False) -> ExactReader[Batch]:
    return BlockReader(source, gather.loaded(), is_unwanted)


def one_by_one(source: SourceSettings, is_unwanted: Callable[[], bool] = lambda: False) -> ExactReader[Batch]:
    return SpanReader(source, is_unwanted=is_unwanted)


WAYS = (one_by_one, in_blocks)
in_both_ways = pytest.mark.parametrize("make", WAYS)


def message(text: str) -> Message:
    return Message(key=text.encode(), value=text.encode())


def messages(first: int, count: int) -> list[Message]:
    return [message(str(number)) for number in range(first, first + count)]


def span(first: int, end: int, *topics: Topic) -> Span:
    """The same of each topic."""
    tps = [TopicPartition(topic.name, 0) for topic in topics]
    return Span(start=Offsets.of(dict.fromkeys(tps, first)), end=Offsets.of(dict.fromkeys(tps, end)))


def texts(batches: Sequence[Batch]) -> list[str]:
    return [(value or b"").decode() for batch in batches for value in batch.values]


def offsets(batches: Sequence[Batch]) -> list[int]:
    return [int(offset) for batch in batches for offset in batch.offsets]


def source_of(topic: Topic) -> SourceSettings:
    return SourceSettings(bootstrap_servers=topic.kafka.bootstrap, topics=(topic.name,))


@pytest.fixture(params=WAYS)
def reader(request: pytest.FixtureRequest, topic: Topic) -> Iterator[ExactReader[Batch]]:
    with closing(request.param(source_of(topic))) as made:
        yield made


def test_one_span_after_the_other_and_some_once_more(reader: ExactReader[Batch], topic: Topic) -> None:
    topic.send(messages(0, 50))
    for first, end in ((0, 10), (10, 11), (11, 11), (11, 50), (5, 7), (7, 50), (0, 1), (30, 31)):
        found = reader.read(span(first, end, topic))
        assert offsets(found) == list(range(first, end))
        assert texts(found) == [str(number) for number in range(first, end)]


def test_more_than_one_call_gives(reader: ExactReader[Batch], topic: Topic) -> None:
    topic.send(messages(0, 25_000))
    assert offsets(reader.read(span(0, 24_000, topic))) == list(range(24_000))
    topic.send(messages(25_000, 10))
    assert offsets(reader.read(span(24_000, 25_010, topic))) == list(range(24_000, 25_010))


def test_offsets_that_hold_nothing(reader: ExactReader[Batch], topic: Topic) -> None:
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


def test_what_retention_has_taken_is_missed(reader: ExactReader[Batch], topic: Topic) -> None:
    topic.send(messages(0, 20))
    admin = AdminClient({"bootstrap.servers": topic.kafka.bootstrap})
    for done in admin.delete_records([KafkaPartition(topic.name, 0, 10)]).values():
        done.result()
    with pytest.raises(Diverged, match="Kafka no longer has messages"):
        reader.read(span(5, 20, topic))
    assert offsets(reader.read(span(10, 20, topic))) == list(range(10, 20))


def test_both_ways_read_the_same(topic: Topic) -> None:
    """Whatever bytes a message has, or has not; with markers and aborted messages in between."""
    chance = random.Random(6)

    def made() -> Message:
        key, value = (chance.choice([None, b"", chance.randbytes(chance.randrange(1, 3000))]) for _ in range(2))
        return Message(key=key, value=value)

    for _ in range(30):
        topic.send([made() for _ in range(chance.randrange(1, 40))])
        topic.send_transaction([made() for _ in range(3)], abort=chance.random() < 0.5)
    tp, end = TopicPartition(topic.name, 0), topic.end
    cuts = sorted(chance.sample(range(1, end), 60))
    with closing(one_by_one(source_of(topic))) as one, closing(in_blocks(source_of(topic))) as other:
        for first, last in itertools.pairwise([0, *cuts, end, 0, 1, end]):
            if first > last:
                continue
            found = [
                [
                    (offset, key, value)
                    for batch in reader.read(span(first, last, topic))
                    for offset, key, value in zip(map(int, batch.offsets), batch.keys, batch.values, strict=True)
                ]
                for reader in (one, other)
            ]
            assert found[0] == found[1], (first, last)
            assert one.last(tp, last) == other.last(tp, last), (first, last)


@in_both_ways
def test_a_read_that_is_not_wanted_any_more(make: Callable[..., ExactReader[Batch]], topic: Topic) -> None:
    """What is behind it is read by the next one."""
    topic.send(messages(0, 10))
    asked = threading.Event()

    def is_unwanted() -> bool:
        before = asked.is_set()
        asked.set()
        return before

    with closing(make(source_of(topic), is_unwanted)) as reader:
        with pytest.raises(Unreachable, match="no longer waits"):
            reader.read(span(0, 20, topic))
        topic.send(messages(10, 10))
        asked.clear()
        assert offsets(reader.read(span(5, 20, topic))) == list(range(5, 20))


@in_both_ways
def test_a_broker_that_is_started_again(make: Callable[..., ExactReader[Batch]], topic: Topic) -> None:
    topic.send(messages(0, 20_000))
    with closing(make(source_of(topic))) as reader:
        assert offsets(reader.read(span(0, 100, topic))) == list(range(100))
        topic.kafka.restart()
        topic.send(messages(20_000, 10))
        assert offsets(reader.read(span(100, 20_010, topic))) == list(range(100, 20_010))


@in_both_ways
def test_an_address_where_nothing_answers(
    make: Callable[..., ExactReader[Batch]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has librdkafka's reason."""
    monkeypatch.setattr("app.kafka.exact_reader.STALL_SECONDS", 3.0)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        source = SourceSettings(bootstrap_servers=address, topics=("t",))
        with closing(make(source)) as reader, pytest.raises(Unreachable, match="Connection refused"):
            reader.read(Span.of(TopicPartition("t", 0), 0, 1))
