"""Reads messages from the lane's archive where Kafka has deleted them, and from Kafka behind that."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.archive.reader import ArchiveReader
from app.kafka.broker import Watermarks
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.replay.kafka_messages import KafkaMessages
from app.replay.origin import Origin


@dataclass(frozen=True)
class _Reading:
    """An open read of the archive."""

    #: offset that the next request begins with, if it goes on with this read
    at: int
    messages: Iterator[RawMessage]
    #: the message that was read already and lies behind the last request
    left: RawMessage | None = None


class ArchivedOrigin:
    """An `Origin` with an archive. What Kafka still has is read from Kafka."""

    name = "archive and Kafka"

    def __init__(self, kafka: Origin, rest: KafkaMessages, readers: Mapping[TopicPartition, ArchiveReader]) -> None:
        """`rest` reads Kafka's part of spans that the archive has in part; `readers`: by partition, of topics whose ids
        are Kafka's present ones."""
        self._kafka, self._rest, self._readers = kafka, rest, readers
        self._reading: dict[TopicPartition, _Reading] = {}

    def held(self) -> Mapping[TopicPartition, Watermarks]:
        """See `Origin`; a partition begins where the archive reaches up to Kafka's first message without a gap."""
        marks = self._kafka.held()
        return {tp: Watermarks(self._first(tp, mark.low), mark.high) for tp, mark in marks.items()}

    def at(self, timestamp_ms: int) -> Offsets:
        """See `Origin`. Where Kafka's answer is its first message, an archived one may be the first of that time."""
        found, marks = self._kafka.at(timestamp_ms), self._kafka.held()
        firsts = {tp: self._first_of(tp, timestamp_ms, low) for tp, (low, _) in marks.items() if found[tp] == low}
        return found.updated({tp: offset for tp, offset in firsts.items() if offset is not None})

    def is_in_kafka(self, span: Span) -> bool:
        marks = self._kafka.held()
        return all(start >= marks[tp].low for tp, start in span.start.items() if span.end[tp] > start)

    def given(self, span: Span) -> list[RawMessage] | None:
        lows = {tp: mark.low for tp, mark in self._kafka.held().items()}
        turn = {tp: min(max(start, lows[tp]), span.end[tp]) for tp, start in span.start.items()}
        early = {tp: end for tp, end in turn.items() if end > span.start[tp]}
        if not early:
            return None
        found = [one for tp, end in early.items() for one in self._archived(tp, span.start[tp], end, lows[tp])]
        if any(span.end[tp] > start for tp, start in turn.items()):
            found += self._rest.read(Span(start=Offsets.of(turn), end=span.end))
        return found

    def message(self, position: Position) -> RawMessage | None:
        if position.offset < self._kafka.held()[position.tp].low:
            return next(self._kept(position, position.offset + 1), None)
        return self._kafka.message(position)

    def messages(self, start: Position, limit: int) -> list[RawMessage]:
        found: list[RawMessage] = []
        low = self._kafka.held()[start.tp].low
        for one in self._kept(start, low):
            if len(found) == limit:
                return found
            found.append(one)
        rest = Position(*start.tp, max(start.offset, low))
        return found + self._kafka.messages(rest, limit - len(found)) if len(found) < limit else found

    def close(self) -> None:
        self._rest.close()
        self._kafka.close()

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
