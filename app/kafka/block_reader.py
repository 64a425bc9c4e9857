"""Reads exact spans of one partition as blocks of bytes: what `app.kafka.spans` does, without an object for each
message."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.config.settings import SourceSettings
from app.kafka.block_consumer import BlockConsumer
from app.kafka.exact_reader import AT_ONCE, STALL_SECONDS, WAIT_SECONDS, ExactReader
from app.kafka.gather import Gather
from app.kafka.packed_bytes import PackedBytes
from app.model.arrow import Indices
from app.model.offsets import Offsets, Span, TopicPartition


@dataclass(frozen=True, eq=False)
class BlockBatch:
    """Messages of one partition, in their order."""

    tp: TopicPartition
    offsets: Indices
    keys: PackedBytes
    values: PackedBytes


class BlockReader(ExactReader[BlockBatch]):
    """Of one partition. Used by one thread at a time."""

    def __init__(self, source: SourceSettings, gather: Gather, is_unwanted: Callable[[], bool] = lambda: False) -> None:
        """For a source whose configuration has no callback. Raises KafkaException where librdkafka refuses it."""
        super().__init__(source, is_unwanted)
        self._consumer = BlockConsumer(self._config, gather, self._complain)

    def close(self) -> None:
        """Close the connections; when no thread reads any more."""
        self._consumer.close()

    def _assign(self, start: Offsets, terms: Mapping[TopicPartition, int]) -> None:
        ((tp, offset),) = start.items()
        self._consumer.assign(tp, offset, terms.get(tp, -1))

    def _read(self, span: Span) -> list[BlockBatch]:
        ((tp, end),) = span.end.items()
        batches, last, heard_at = [], None, time.monotonic()
        while True:
            block = self._consumer.take(end)
            if block is not None:
                found, last = block.messages, block.last
                batches.append(BlockBatch(tp, found.offsets, found.keys, found.values))
                self._at[tp] = last.offset + 1
            if self._consumer.has_more or max(self._at[tp], self._ends.get(tp, 0)) >= end:
                break
            self._check_wanted()
            count, event = self._consumer.fetch(min(end - self._at[tp], AT_ONCE), WAIT_SECONDS)
            if event.error is not None:
                raise self._meaning(event.error, tp)
            if event.end is not None:
                self._ends[tp] = event.end
            if count:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > STALL_SECONDS:
                raise self._silent([tp])
        self._at[tp] = end
        self._remember(tp, span.start[tp], end, last)
        return batches

    def _low(self, tp: TopicPartition) -> int:
        return self._consumer.low(tp, STALL_SECONDS)

    def _complain(self, text: str) -> None:
        self._complaint = text
