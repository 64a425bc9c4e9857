"""Lag: what Kafka has that the target does not, in messages and in the age of the oldest of them.

Offsets have gaps, so their difference is only an upper bound, and a partition may seem to lag though only transaction
markers are left. So the first message not applied is read, and its timestamp gives the age.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from app.kafka.broker import Broker, Watermarks
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, TopicPartition


@dataclass(frozen=True, kw_only=True)
class Lag:
    """How far a position is behind, at one moment."""

    by_partition: Mapping[TopicPartition, int]
    #: age of the oldest message not applied, 0 when there is none, None when it has no timestamp
    seconds: float | None

    @property
    def messages(self) -> int:
        """Sum of all partitions; never less than the real number."""
        return sum(self.by_partition.values())


def measure(broker: Broker, position: Offsets, partitions: set[TopicPartition] | None = None) -> Lag:
    """The lag of `position`; a partition that it does not name counts from its first message."""
    marks = broker.watermarks(broker.partitions() if partitions is None else partitions)
    first = {tp: _first_behind(broker, tp, position.get(tp, mark.low), mark) for tp, mark in marks.items()}
    return Lag(
        by_partition={tp: marks[tp].high - m.position.offset if m else 0 for tp, m in first.items()},
        seconds=_age([message for message in first.values() if message]),
    )


def _first_behind(broker: Broker, tp: TopicPartition, offset: int, mark: Watermarks) -> RawMessage | None:
    if offset >= mark.high:
        return None
    found = broker.messages(Position(tp.topic, tp.partition, max(offset, mark.low)), limit=1)
    return found[0] if found else None


def _age(messages: list[RawMessage]) -> float | None:
    stamps = [message.timestamp_ms for message in messages if message.timestamp_ms is not None]
    if messages and not stamps:
        return None
    return max((max(0.0, time.time() - stamp / 1000) for stamp in stamps), default=0.0)
