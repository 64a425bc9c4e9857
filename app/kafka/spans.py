"""Reads exact spans of topics with librdkafka, one after the other; what lies behind a span is fetched ahead."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from types import NoneType
from typing import Generic, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from app.config.settings import SourceSettings
from app.errors import LogTruncated, MessagesGone, SurelaneError, Unreachable
from app.kafka.broker import raw
from app.kafka.client import client_config
from app.kafka.error_codes import GONE, TRUNCATED, unreachable
from app.kafka.librdkafka import ASSIGNED
from app.model.last import LastMessage
from app.model.offsets import Offsets, Span, TopicPartition

#: longest wait for messages that should exist
STALL_SECONDS = 30.0
#: longest wait of one call: between calls a read may be abandoned
_WAIT_SECONDS = 0.5
#: messages of one call
_AT_ONCE = 10_000
#: reads of a partition whose last message is remembered
_REMEMBERED = 256
#: larger than every offset
_FAR = 1 << 62
_OPTIONS = {
    **ASSIGNED,
    "check.crcs": "true",
    "fetch.wait.max.ms": "25",
    "fetch.message.max.bytes": str(4 << 20),
    "queued.max.messages.kbytes": str(64 << 10),
    # with a full queue the next fetch waits so long: a second by default
    "fetch.queue.backoff.ms": "10",
    "fetch.error.backoff.ms": "100",
}


@dataclass
class Batch:
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


B = TypeVar("B", bound=Batch)


@dataclass
class WholeBatch(Batch):
    """Keeps the messages themselves, without taking keys and values out of them."""

    messages: list[Message] = field(default_factory=list)

    def _take(self, messages: Sequence[Message]) -> None:
        self.messages += messages


class SpanReader(Generic[B]):
    """A consumer without a group. Used by one thread at a time."""

    def __init__(
        self,
        source: SourceSettings,
        batch: Callable[[TopicPartition], B] = Batch,
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> None:
        """`batch`: makes what messages are gathered in; `is_unwanted`: called again and again while a read waits for
        messages, which gives up when it is true."""
        self._batch, self._is_unwanted = batch, is_unwanted
        self._servers = source.bootstrap_servers
        self._complaint = ""
        config = {**client_config(source), **_OPTIONS, "log_level": 0}
        self._consumer = Consumer({**config, "group.id": f"surelane-{id(self):x}", "error_cb": self._complain})
        self._abandoned = Event()
        #: the next offset that the consumer will return
        self._at: dict[TopicPartition, int] = {}
        #: returned already, but behind the requested span
        self._left: dict[TopicPartition, list[Message]] = {}
        #: end of what a reader may see, once the consumer has reached it
        self._ends: dict[TopicPartition, int] = {}
        #: end of a read -> the last message before it
        self._lasts: dict[TopicPartition, dict[int, LastMessage]] = {}

    def abandon(self) -> None:
        """Make reads give up, with Unreachable. From any thread."""
        self._abandoned.set()

    def close(self) -> None:
        """Close the connections; when no thread reads any more."""
        self._consumer.close()

    def go_to(self, start: Offsets, terms: Mapping[TopicPartition, int] | None = None) -> None:
        """Begin the next read here: it is fetched from now on. `terms`: leader epoch of the message before it; a log in
        which that epoch ended earlier raises LogTruncated when it is read."""
        self._at, self._left, self._ends = dict(start), {}, {}
        places = [
            KafkaPartition(tp.topic, tp.partition, offset, leader_epoch=(terms or {}).get(tp, -1))
            for tp, offset in start.items()
        ]
        self._consumer.assign(places)

    def last(self, tp: TopicPartition, end: int) -> LastMessage | None:
        """The last message before `end`, where a read ended; None: not known. From any thread."""
        return self._lasts.get(tp, {}).get(end)

    def read(self, span: Span) -> list[B]:
        """Every message of the span. Raises MessagesGone for offsets that Kafka no longer has, Unreachable when it does
        not answer."""
        if self._abandoned.is_set():
            raise self._unreachable("the lane is closed")
        batches = {tp: self._batch(tp) for tp in span.end if span.end[tp] > span.start[tp]}
        if any(self._at.get(tp) != span.start[tp] for tp in batches):
            self.go_to(span.start)
        try:
            self._fill(batches, span.end)
        except SurelaneError:
            self._at.clear()  # its position is unknown: the next read sets it
            raise
        for tp, batch in batches.items():
            self._remember(batch, span.start[tp], span.end[tp])
        return list(batches.values())

    def more(self, tp: TopicPartition, limit: int, wait_seconds: float) -> B:
        """The next messages of a partition: at most `limit`, those that come within `wait_seconds`. Raises as
        `read`."""
        batch, end = self._batch(tp), Offsets.of({tp: _FAR})
        self._from_left(batch, _FAR)
        try:
            if not batch.offsets:
                self._take(self._consumer.consume(limit, wait_seconds), {tp: batch}, end)
        except KafkaException as error:
            self._at.clear()
            raise self._meaning(error.args[0]) from error
        except SurelaneError:
            self._at.clear()
            raise
        if batch.offsets:
            self._remember(batch, batch.offsets[0], batch.offsets[-1] + 1)
        return batch

    def _remember(self, batch: Batch, start: int, end: int) -> None:
        """Remember the last message before `end`: without a message in between, that before `start`."""
        known = self._lasts.setdefault(batch.tp, {})
        last = known.get(start) if batch.last is None else identity(batch.last)
        known.pop(end, None)
        if last is not None:
            known[end] = last
        if len(known) > _REMEMBERED:
            known.pop(next(iter(known)))

    def _fill(self, batches: Mapping[TopicPartition, Batch], end: Offsets) -> None:
        open_ = {tp for tp in batches if not self._from_left(batches[tp], end[tp])}
        heard_at = time.monotonic()
        while open_:
            if self._abandoned.is_set() or self._is_unwanted():
                raise self._unreachable("the lane no longer waits for it")
            missing = sum(end[tp] - self._at[tp] for tp in open_)
            try:
                messages = self._consumer.consume(min(missing, _AT_ONCE), _WAIT_SECONDS)
            except KafkaException as error:
                raise self._meaning(error.args[0]) from error
            if messages:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > STALL_SECONDS:
                raise self._unreachable(f"no message within {STALL_SECONDS:g} s of {sorted(map(str, open_))}")
            self._take(messages, batches, end)
            open_ = {tp for tp in open_ if max(self._at[tp], self._ends.get(tp, 0)) < end[tp]}
        for tp in batches:
            self._at[tp] = end[tp]

    def _take(self, messages: Sequence[Message], batches: Mapping[TopicPartition, Batch], end: Offsets) -> None:
        """Add messages to their batches. One partition alone, which is the rule, is added at once: a tenth of the
        time."""
        if len(self._at) == 1:
            ((tp, _),) = self._at.items()
            if tp in batches and batches[tp].add_all(messages, end[tp]):
                self._at[tp] = batches[tp].offsets[-1] + 1
                return
        for message in messages:
            self._take_one(message, batches, end)

    def _take_one(self, message: Message, batches: Mapping[TopicPartition, Batch], end: Offsets) -> None:
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

    def _from_left(self, batch: Batch, end: int) -> bool:
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

    def _meaning(self, error: KafkaError | None, tp: TopicPartition | None = None) -> SurelaneError:
        if error is not None and error.code() == TRUNCATED:
            return LogTruncated.of(error.str())
        if error is not None and error.code() in GONE:
            return self._missing(error, tp)
        return self._unreachable(error.str() if error is not None else "a message without a position")

    def _missing(self, error: KafkaError, tp: TopicPartition | None) -> SurelaneError:
        """The error for an offset that is not in the log: deleted where the log begins behind it; else the log once
        ended before it, which librdkafka finds by the leader epoch and gives the same code."""
        places = {tp: self._at[tp]} if tp is not None and tp in self._at else self._at
        try:
            is_deleted = any(offset < self._low(at) for at, offset in places.items())
        except KafkaException as failure:
            return self._unreachable(failure.args[0].str())
        return MessagesGone.of(error.str()) if is_deleted else LogTruncated.of(error.str())

    def _low(self, tp: TopicPartition) -> int:
        low, _ = self._consumer.get_watermark_offsets(KafkaPartition(*tp), timeout=STALL_SECONDS, cached=False)
        return low

    def _unreachable(self, what: str) -> Unreachable:
        return unreachable(self._servers, what, self._complaint)

    def _complain(self, error: KafkaError) -> None:
        self._complaint = error.str()


def identity(message: Message) -> LastMessage:
    """Identity of a message without an error."""
    return raw(message).last
