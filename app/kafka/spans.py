"""Reads exact spans of topics with librdkafka, one after the other; what lies behind a span is fetched ahead."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaPartition

from app.config.settings import SourceSettings
from app.kafka.broker import raw
from app.kafka.exact_reader import AT_ONCE, STALL_SECONDS, WAIT_SECONDS, ExactReader
from app.model.offsets import Offsets, Span, TopicPartition


@dataclass
class ListBatch:
    """Messages of one partition, in their order."""

    tp: TopicPartition
    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    #: the newest of those that came from Kafka
    last: Message | None = None

    def add(self, offset: int, message: Message) -> None:
        self.offsets.append(offset)
        self.last = message
        self._take((message,))

    def add_all(self, messages: Sequence[Message], end: int) -> bool:
        """Add messages of this partition alone that came in one call; false, with nothing done, where one is an error,
        or the last is not before `end`."""
        # by type: a KafkaError that is compared with None leaves an exception behind
        if not {NoneType}.issuperset(map(type, map(Message.error, messages))):
            return False
        offsets = list(map(Message.offset, messages))
        if not offsets or offsets[-1] is None or offsets[-1] >= end:
            return False
        self.offsets += offsets  # pyright: ignore[reportAttributeAccessIssue]  # they ascend, so none is None
        self.last = messages[-1]
        self._take(messages)
        return True

    def _take(self, messages: Sequence[Message]) -> None:
        self.keys += map(Message.key, messages)
        self.values += map(Message.value, messages)


B = TypeVar("B", bound=ListBatch)


@dataclass
class WholeBatch(ListBatch):
    """Keeps the messages themselves, without taking keys and values out of them."""

    messages: list[Message] = field(default_factory=list)

    def _take(self, messages: Sequence[Message]) -> None:
        self.messages += messages


class SpanReader(ExactReader[B]):
    """A consumer without a group. Used by one thread at a time."""

    def __init__(
        self,
        source: SourceSettings,
        batch: Callable[[TopicPartition], B] = ListBatch,
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> None:
        """`batch`: makes what messages are gathered in; `is_unwanted`: called again and again while a read waits for
        messages, which gives up when it is true."""
        super().__init__(source, is_unwanted)
        self._batch = batch
        self._consumer = Consumer({**self._config, "error_cb": self._complaint.note})
        #: returned already, but behind the requested span
        self._left: dict[TopicPartition, list[Message]] = {}

    def close(self) -> None:
        """Close the connections; when no thread reads any more."""
        self._consumer.close()

    def _assign(self, start: Offsets, terms: Mapping[TopicPartition, int]) -> None:
        self._left = {}
        places = [
            KafkaPartition(tp.topic, tp.partition, offset, leader_epoch=terms.get(tp, -1))
            for tp, offset in start.items()
        ]
        self._consumer.assign(places)

    def _read(self, span: Span) -> list[B]:
        batches = {tp: self._batch(tp) for tp in span.end if span.end[tp] > span.start[tp]}
        self._fill(batches, span.end)
        for tp, batch in batches.items():
            self._note(batch, span.start[tp], span.end[tp])
        return list(batches.values())

    def _note(self, batch: ListBatch, start: int, end: int) -> None:
        self._remember(batch.tp, start, end, None if batch.last is None else raw(batch.last).last)

    def _fill(self, batches: Mapping[TopicPartition, ListBatch], end: Offsets) -> None:
        open_ = {tp for tp in batches if not self._from_left(batches[tp], end[tp])}
        heard_at = time.monotonic()
        while open_:
            self._check_wanted()
            missing = sum(end[tp] - self._at[tp] for tp in open_)
            messages = self._consumer.consume(min(missing, AT_ONCE), WAIT_SECONDS)
            heard_at = self._heard(heard_at, open_, came=bool(messages))
            self._take(messages, batches, end)
            open_ = {tp for tp in open_ if max(self._at[tp], self._ends.get(tp, 0)) < end[tp]}
        for tp in batches:
            self._at[tp] = end[tp]

    def _take(self, messages: Sequence[Message], batches: Mapping[TopicPartition, ListBatch], end: Offsets) -> None:
        """Add messages to their batches. One partition alone, which is the rule, is added at once: a tenth of the
        time."""
        if len(self._at) == 1:
            ((tp, _),) = self._at.items()
            if tp in batches and batches[tp].add_all(messages, end[tp]):
                self._at[tp] = batches[tp].offsets[-1] + 1
                return
        for message in messages:
            self._take_one(message, batches, end)

    def _take_one(self, message: Message, batches: Mapping[TopicPartition, ListBatch], end: Offsets) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        error = message.error()
        if topic is None or partition is None or offset is None:
            tp = None if topic is None or partition is None else TopicPartition(topic, partition)
            raise self._meaning(error, tp)
        tp = TopicPartition(topic, partition)
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise self._meaning(error, tp)
            self._ends[tp] = offset
        elif tp in batches and offset < end[tp]:
            batches[tp].add(offset, message)
            self._at[tp] = offset + 1
        else:
            self._left.setdefault(tp, []).append(message)
            self._at[tp] = max(self._at[tp], end.get(tp, 0))

    def _from_left(self, batch: ListBatch, end: int) -> bool:
        """Add messages that an earlier call gave; whether that is all."""
        left = self._left.pop(batch.tp, [])
        for at, message in enumerate(left):
            offset = message.offset()
            assert offset is not None, "it was given with one"
            if offset >= end:
                self._left[batch.tp] = left[at:]
                return True
            batch.add(offset, message)
            self._at[batch.tp] = offset + 1
        return self._ends.get(batch.tp, 0) >= end

    def _low(self, tp: TopicPartition) -> int:
        low, _ = self._consumer.get_watermark_offsets(KafkaPartition(*tp), timeout=STALL_SECONDS, cached=False)
        return low
