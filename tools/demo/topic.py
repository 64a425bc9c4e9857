"""Observes the topic: its end offset over time."""

import time
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

#: seconds between two observations
EVERY_SECONDS = 0.2
ANSWER_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Length:
    """The topic's end offset at a moment (monotonic seconds)."""

    at: float
    end: int


class Topic:
    """One topic with one partition; each `step` records its end offset."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo", "log_level": 0})
        self._partition = TopicPartition(topic, 0)
        self.lengths: list[Length] = []

    def end(self) -> int:
        """The offset of the next message."""
        _, high = self._consumer.get_watermark_offsets(self._partition, timeout=ANSWER_SECONDS, cached=False)
        return high

    def step(self) -> None:
        self.lengths.append(Length(end=self.end(), at=time.monotonic()))

    def close(self) -> None:
        self._consumer.close()
