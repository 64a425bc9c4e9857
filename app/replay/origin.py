"""The source of a replay's messages."""

from collections.abc import Mapping
from typing import Protocol

from app.kafka.broker import Watermarks
from app.model.message import RawMessage
from app.model.offsets import Offsets, Span, TopicPartition
from app.worker.epoch_source import Singles


class Origin(Singles, Protocol):
    """Messages of topic-partitions, by their offsets. Used by one thread at a time."""

    #: shown in messages
    name: str

    def held(self) -> Mapping[TopicPartition, Watermarks]:
        """First offset that exists and end (exclusive) of every partition."""
        ...

    def at(self, timestamp_ms: int) -> Offsets:
        """Offset of every partition's first message that is not older; its end where there is none."""
        ...

    def is_in_kafka(self, span: Span) -> bool:
        """Whether Kafka has the whole span."""
        ...

    def given(self, span: Span) -> list[RawMessage] | None:
        """Every message of the span, each partition's in order; None: Kafka has all of them. Raises Diverged where some
        are gone."""
        ...

    def close(self) -> None:
        """Close what it has opened."""
        ...


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
