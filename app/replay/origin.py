"""The messages of a replay: what Kafka has, and in front of that what the lane's archive has."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.archive.reader import ArchiveReader
from app.config.settings import SourceSettings
from app.kafka.broker import Broker, Watermarks
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.replay.kafka_messages import KafkaMessages


@dataclass(frozen=True)
class _Reading:
    """An open read of the archive."""

    #: offset that the next request begins with, if it goes on with this read
    at: int
    messages: Iterator[RawMessage]
    #: the message that was read already and lies behind the last request
    left: RawMessage | None = None


class Origin:
    """Messages of topic-partitions, by their offsets. What Kafka still has is read from Kafka. Used by one thread at a
    time."""

    def __init__(self, broker: Broker, source: SourceSettings, readers: Mapping[TopicPartition, ArchiveReader]) -> None:
        """`readers`: by partition, of topics whose ids are Kafka's present ones; empty: there is no archive. The caller
        owns and closes `broker`."""
        self._broker, self._source, self._readers = broker, source, readers
        #: reads Kafka's part of spans that the archive has in part
        self._rest: KafkaMessages | None = None
        self._reading: dict[TopicPartition, _Reading] = {}

    @property
    def name(self) -> str:
        """Shown in messages."""
        return "archive and Kafka" if self._readers else "Kafka"

    def held(self) -> Mapping[TopicPartition, Watermarks]:
        """First offset that exists and end (exclusive) of every partition. A partition begins where the archive reaches
        up to Kafka's first message without a gap."""
        marks = self._in_kafka()
        return {tp: Watermarks(self._first(tp, mark.low), mark.high) for tp, mark in marks.items()}

    def at(self, timestamp_ms: int) -> Offsets:
        """Offset of every partition's first message that is not older; its end where there is none."""
        found, marks = self._broker.offsets_at(timestamp_ms), self._in_kafka()
        # where Kafka's answer is its first message, an archived one may be the first of that time
        firsts = {tp: self._first_of(tp, timestamp_ms, low) for tp, (low, _) in marks.items() if found[tp] == low}
        return found.updated({tp: offset for tp, offset in firsts.items() if offset is not None})

    def is_in_kafka(self, span: Span) -> bool:
        """Whether tasks have to read the whole span from Kafka."""
        if not self._readers:
            return True
        marks = self._in_kafka()
        return all(start >= marks[tp].low for tp, start in span.start.items() if span.end[tp] > start)

    def given(self, span: Span) -> list[RawMessage] | None:
        """Every message of the span, each partition's in order; None: tasks have to read it from Kafka. Raises Diverged
        where the archive has a gap."""
        if not self._readers:
            return None
        lows = {tp: mark.low for tp, mark in self._in_kafka().items()}
        turn = {tp: min(max(start, lows[tp]), span.end[tp]) for tp, start in span.start.items()}
        early = {tp: end for tp, end in turn.items() if end > span.start[tp]}
        if not early:
            return None
        found = [one for tp, end in early.items() for one in self._archived(tp, span.start[tp], end, lows[tp])]
        if any(span.end[tp] > start for tp, start in turn.items()):
            self._rest = self._rest or KafkaMessages(self._source)
            found += self._rest.read(Span(start=Offsets.of(turn), end=span.end))
        return found

    def messages(self, start: Position, limit: int) -> list[RawMessage]:
        """Up to `limit` messages from `start` on; fewer where the partition ends."""
        if not self._readers:
            return self._broker.messages(start, limit)
        found: list[RawMessage] = []
        low = self._in_kafka()[start.tp].low
        for one in self._kept(start, low):
            if len(found) == limit:
                return found
            found.append(one)
        rest = Position(*start.tp, max(start.offset, low))
        return found + self._broker.messages(rest, limit - len(found)) if len(found) < limit else found

    def close(self) -> None:
        """Close what it has opened."""
        if self._rest is not None:
            self._rest.close()

    def _in_kafka(self) -> Mapping[TopicPartition, Watermarks]:
        return self._broker.watermarks(self._broker.partitions())

    def _first(self, tp: TopicPartition, low: int) -> int:
        kept = self._readers[tp].spans().get(tp, []) if tp in self._readers else []
        return next((start for start, end in kept if start < low <= end), low)

    def _first_of(self, tp: TopicPartition, timestamp_ms: int, low: int) -> int | None:
        """Offset of the first archived message, in front of Kafka's first, that is not older; None: there is none."""
        first = Position(*tp, self._first(tp, low))
        found = self._kept(first, low)
        return next((one.position.offset for one in found if (one.timestamp_ms or 0) >= timestamp_ms), None)

    def _kept(self, start: Position, end: int) -> Iterator[RawMessage]:
        """Archived messages from `start` to `end` (exclusive); none where the archive lacks some of them."""
        if start.tp in self._readers and self._first(start.tp, end) <= start.offset < end:
            yield from self._readers[start.tp].read(start.topic, start.partition, start.offset, end)

    def _archived(self, tp: TopicPartition, start: int, end: int, low: int) -> list[RawMessage]:
        """Archived messages of a range. Goes on with the last read if it ended at `start`.

        Raises Diverged where the archive lacks some of them.
        """
        reading = self._reading.pop(tp, None)
        if reading is None or reading.at != start:
            reading = _Reading(start, self._readers[tp].read(*tp, start, low))
        found, at, left = list[RawMessage](), start, None
        # not a generator function: leaving it early would close the archive's generator
        for one in itertools.chain([reading.left] if reading.left else [], reading.messages):
            if one.position.offset >= end:
                left = one
                break
            found.append(one)
            at = one.position.offset + 1
        self._reading[tp] = _Reading(max(at, end), reading.messages, left)
        return found


def gone(origin: Origin, position: Offsets, goal: Offsets) -> dict[TopicPartition, tuple[int, int]]:
    """First and last offset that is gone between `position` and `goal`, by partition."""
    marks = origin.held()
    return {
        tp: (position[tp], min(marks[tp].low, end) - 1)
        for tp, end in goal.items()
        if position[tp] < min(marks[tp].low if tp in marks else end, end)
    }


def describe_missing(missing: Mapping[TopicPartition, tuple[int, int]]) -> str:
    each = (f"{tp} {first} to {last} ({last - first + 1:,} offsets)" for tp, (first, last) in sorted(missing.items()))
    return ", ".join(each)
