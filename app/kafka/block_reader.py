"""Reads exact spans of one partition as blocks of bytes: what `app.kafka.spans` does, without an object for each
message."""

import time
from collections.abc import Callable, Mapping

from app.config.settings import SourceSettings
from app.kafka.batch import BlockBatch
from app.kafka.block_consumer import BlockConsumer
from app.kafka.exact_reader import AT_ONCE, STALL_SECONDS, WAIT_SECONDS, ExactReader
from app.kafka.gather import Gather
from app.model.offsets import Offsets, Span, TopicPartition


class BlockReader(ExactReader[BlockBatch]):
    """Of one partition. Used by one thread at a time."""

    def __init__(self, source: SourceSettings, gather: Gather, is_unwanted: Callable[[], bool] = lambda: False) -> None:
        """For a source whose configuration has no callback. Raises KafkaException where librdkafka refuses it."""
        super().__init__(source, is_unwanted)
        self._consumer = BlockConsumer(self._config, gather, self._complaint.note)

    def close(self) -> None:
        """Close the connections; when no thread reads any more."""
        self._consumer.close()

    def _assign(self, start: Offsets, terms: Mapping[TopicPartition, int]) -> None:
        ((tp, offset),) = start.items()
        self._consumer.assign(tp, offset, terms.get(tp, -1))

    def _read(self, span: Span) -> list[BlockBatch]:
        ((tp, end),) = span.end.items()
        batches: list[BlockBatch] = []
        last, heard_at = None, time.monotonic()
        while True:
            if (taken := self._consumer.take(tp, end)) is not None:
                batch, last = taken
                batches.append(batch)
                self._at[tp] = last.offset + 1
            if self._consumer.has_more or max(self._at[tp], self._ends.get(tp, 0)) >= end:
                break
            self._check_wanted()
            count, event = self._consumer.fetch(min(end - self._at[tp], AT_ONCE), WAIT_SECONDS)
            if event.error is not None:
                raise self._meaning(event.error, tp)
            if event.end is not None:
                self._ends[tp] = event.end
            heard_at = self._heard(heard_at, [tp], came=count > 0)
        self._at[tp] = end
        self._remember(tp, span.start[tp], end, last)
        return batches

    def _low(self, tp: TopicPartition) -> int:
        return self._consumer.low(tp, STALL_SECONDS)
