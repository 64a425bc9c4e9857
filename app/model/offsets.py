"""Offsets: a Kafka offset for each topic-partition, the position of a lane.

An offset is the *next* message to read (Kafka's and Spark's convention), so the end of one epoch is the start of the
next. The JSON form is Spark's own (`offsets/N`, `startingOffsets`): `{"topic": {"0": 42}}`.
Offsets have gaps (transaction markers, log compaction): a difference is no message count.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True)
class Offsets(Mapping[TopicPartition, int]):
    """Immutable map of topic-partition to the next offset to read."""

    _by_partition: tuple[tuple[TopicPartition, int], ...] = ()

    @classmethod
    def of(cls, offsets: Mapping[TopicPartition, int]) -> Self:
        """From any mapping; raises ValueError for a negative offset."""
        negative = {str(tp): offset for tp, offset in offsets.items() if offset < 0}
        if negative:
            raise ValueError(f"offsets must not be negative: {negative}")
        return cls(tuple(sorted((TopicPartition(*tp), int(offset)) for tp, offset in offsets.items())))

    @classmethod
    def from_nested(cls, nested: Mapping[str, Mapping[str | int, int]]) -> Self:
        """From `{topic: {partition: offset}}`, partitions as int or str; raises ValueError for another shape."""
        return cls.of(
            {
                TopicPartition(topic, int(p)): int(o)
                for topic, partitions in nested.items()
                for p, o in partitions.items()
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """From Spark's JSON; raises ValueError for another shape."""
        nested = json.loads(text)
        if not isinstance(nested, dict) or not all(isinstance(value, dict) for value in nested.values()):
            raise ValueError(f"not an offset map: {text[:200]}")
        return cls.from_nested(nested)

    def nested(self) -> dict[str, dict[str, int]]:
        """As `{topic: {"partition": offset}}`, sorted."""
        result: dict[str, dict[str, int]] = {}
        for tp, offset in self._by_partition:
            result.setdefault(tp.topic, {})[str(tp.partition)] = offset
        return result

    def to_json(self) -> str:
        """As Spark's JSON; equal offsets give equal text."""
        return json.dumps(self.nested(), sort_keys=True)

    def only(self, partitions: set[TopicPartition]) -> "Offsets":
        """The offsets of `partitions`."""
        return Offsets(tuple(pair for pair in self._by_partition if pair[0] in partitions))

    def without(self, partitions: Collection[TopicPartition]) -> "Offsets":
        """The offsets of all other partitions."""
        return Offsets(tuple(pair for pair in self._by_partition if pair[0] not in partitions))

    @classmethod
    def joined(cls, each: "Iterable[Offsets]") -> Self:
        """The union of several offsets; for a common partition the last one applies."""
        return cls.of({tp: offset for one in each for tp, offset in one.items()})

    def updated(self, newer: Mapping[TopicPartition, int]) -> "Offsets":
        """These offsets, overridden by `newer`."""
        return Offsets.of({**self, **newer})

    def left_to(self, goal: Mapping[TopicPartition, int]) -> int:
        """Number of offsets up to `goal`; a partition that is missing here begins at 0."""
        return sum(max(0, offset - self.get(tp, 0)) for tp, offset in goal.items())

    def __getitem__(self, key: TopicPartition) -> int:
        for tp, offset in self._by_partition:
            if tp == key:
                return offset
        raise KeyError(key)

    def __iter__(self) -> Iterator[TopicPartition]:
        return (tp for tp, _ in self._by_partition)

    def __len__(self) -> int:
        return len(self._by_partition)

    def __str__(self) -> str:
        return ", ".join(f"{tp}@{offset}" for tp, offset in self._by_partition) or "(nothing)"


class Position(NamedTuple):
    """Position of one message."""

    topic: str
    partition: int
    offset: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"


@dataclass(frozen=True, kw_only=True)
class Span:
    """A range of positions from `start` (inclusive) to `end` (exclusive)."""

    start: Offsets
    end: Offsets

    @classmethod
    def of(cls, tp: TopicPartition, start: int, end: int) -> Self:
        """A span of one partition."""
        return cls(start=Offsets.of({tp: start}), end=Offsets.of({tp: end}))

    @property
    def size(self) -> int:
        """Number of offsets; at least the number of messages."""
        return sum(end - self.start[tp] for tp, end in self.end.items())

    @property
    def goes_on(self) -> bool:
        """Whether no partition ends before its start, or is missing at the end."""
        return all(tp in self.end and offset <= self.end[tp] for tp, offset in self.start.items())

    def only(self, partitions: set[TopicPartition]) -> "Span":
        """The part of these partitions."""
        return Span(start=self.start.only(partitions), end=self.end.only(partitions))

    def has(self, position: Position) -> bool:
        """Whether `position` is in the span."""
        tp = position.tp
        return tp in self.end and self.start.get(tp, 0) <= position.offset < self.end[tp]
