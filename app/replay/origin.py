"""Where a replay's messages come from."""

from collections.abc import Mapping
from typing import Protocol

from app.kafka.broker import Watermarks
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition


class Origin(Protocol):
    """Messages of topic-partitions, by their offsets. Used by one thread at a time."""

    #: for people
    name: str

    def held(self) -> Mapping[TopicPartition, Watermarks]:
        """Of every partition the first offset that is there, and the one behind the last."""
        ...

    def at(self, timestamp_ms: int) -> Offsets:
        """Of every partition the first message that is not older; where there is none, its end."""
        ...

    def is_in_kafka(self, span: Span) -> bool:
        """Whether Kafka has all of it."""
        ...

    def given(self, span: Span) -> list[RawMessage] | None:
        """Every message of the span, each partition's in order; None: Kafka has all of them. Raises Diverged for what
        is not there any more."""
        ...

    def message(self, position: Position) -> RawMessage | None:
        """One message, whole; None where there is none (offsets have gaps)."""
        ...

    def messages(self, start: Position, limit: int) -> list[RawMessage]:
        """Up to `limit` messages from `start` on; fewer where the partition ends."""
        ...

    def close(self) -> None:
        """Give up what is held."""
        ...


def gone(origin: Origin, position: Offsets, goal: Offsets) -> dict[TopicPartition, tuple[int, int]]:
    """What is missing between the two: first and last offset."""
    marks = origin.held()
    return {
        tp: (position[tp], min(marks[tp].low, end) - 1)
        for tp, end in goal.items()
        if position[tp] < min(marks[tp].low if tp in marks else end, end)
    }


def told(missing: Mapping[TopicPartition, tuple[int, int]]) -> str:
    """In words."""
    each = (f"{tp} {first} to {last} ({last - first + 1:,} offsets)" for tp, (first, last) in sorted(missing.items()))
    return ", ".join(each)
