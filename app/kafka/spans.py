"""Reading exact spans of topics with librdkafka, one after the other; what lies behind a span is fetched ahead."""

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

#: longest wait for messages that ought to be there
STALL_SECONDS = 30.0
#: longest wait of one call: whoever wants to stop has to be heard
_WAIT_SECONDS = 0.5
#: messages of one call
_AT_ONCE = 10_000
#: ends of what was read of a partition, whose last messages are remembered
_REMEMBERED = 256
#: behind every offset
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
        """One more."""
        self.offsets.append(offset)
        self.last = message
        self._take((message,))

    def add_all(self, messages: Sequence[Message], end: int) -> bool:
        """What was given at once: messages of this partition alone, without any error, before `end`; false, with
        nothing done, where it is not so."""
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
    """The messages themselves, for those who keep them; nothing is taken out of them."""

    messages: list[Message] = field(default_factory=list)

    def _take(self, messages: Sequence[Message]) -> None:
        self.messages += messages


class SpanReader(Generic[B]):
    """A consumer that belongs to no group. Used by one thread at a time."""

    def __init__(
        self,
        source: SourceSettings,
        batch: Callable[[TopicPartition], B] = Batch,
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> None:
        """`batch`: what messages are gathered in; `is_unwanted`: asked again and again while one waits for messages,
        who reads gives up then."""
        self._batch, self._is_unwanted = batch, is_unwanted
        self._servers = source.bootstrap_servers
        self._complaint = ""
        config = {**client_config(source), **_OPTIONS, "log_level": 0}
        self._consumer = Consumer({**config, "group.id": f"surelane-{id(self):x}", "error_cb": self._complain})
        self._abandoned = Event()
        #: the next offset that the consumer will give
        self._at: dict[TopicPartition, int] = {}
        #: given already, but behind the span that was asked for
        self._left: dict[TopicPartition, list[Message]] = {}
        #: behind the last message that a reader may see, as far as the consumer has come to it
        self._ends: dict[TopicPartition, int] = {}
        #: by where a read ended: the last message before it
        self._lasts: dict[TopicPartition, dict[int, LastMessage]] = {}

    def abandon(self) -> None:
        """Whoever reads gives up, with Unreachable. From any thread."""
        self._abandoned.set()

    def close(self) -> None:
        """End the connections; when nobody reads any more."""
        self._consumer.close()

    def go_to(self, start: Offsets, terms: Mapping[TopicPartition, int] | None = None) -> None:
        """What is read next begins here: it is fetched from now on. `terms`: leader epoch of the message before it;
        a log in which that one ended earlier raises LogTruncated when it is read."""
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
            self._at.clear()  # wherever it is now: the next one says where to go
            raise
        for tp, batch in batches.items():
            self._remember(batch, span.start[tp], span.end[tp])
        return list(batches.values())

    def more(self, tp: TopicPartition, limit: int, wait_seconds: float) -> B:
        """What comes next of a partition: `limit` messages at most, those that are there. Raises what `read` raises."""
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
        """A read without a message leaves the last one what it was."""
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
                raise self._unreachable("nobody waits for it any more")
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
        """Sort what was given. One partition alone, which is the rule, is taken as a whole: a tenth of the time."""
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
        """Take what was given before; whether that is all."""
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
        """An offset that is not in the log: deleted where the log begins behind it; else the log ended before it once,
        which librdkafka finds by the leader epoch and gives the same code."""
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
    """Of a message that came without an error."""
    return raw(message).last
