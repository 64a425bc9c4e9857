"""Messages of one partition as the decoder gets them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.kafka.packed_bytes import PackedBytes
from app.model.arrow import Indices
from app.model.offsets import TopicPartition


class Batch(Protocol):
    """Messages of one partition, in their order: an offset, key and value each."""

    @property
    def tp(self) -> TopicPartition: ...
    @property
    def offsets(self) -> Sequence[int] | Indices: ...
    @property
    def keys(self) -> Sequence[bytes | None]: ...
    @property
    def values(self) -> Sequence[bytes | None]: ...


@dataclass(frozen=True, eq=False)
class BlockBatch:
    """A `Batch` without an object for each message."""

    tp: TopicPartition
    offsets: Indices
    keys: PackedBytes
    values: PackedBytes
