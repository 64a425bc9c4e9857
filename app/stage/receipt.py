"""What a stage process answers. All of it is MessagePack."""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from app.archive.file import Block
from app.model.activity import Activity
from app.model.for_driver import ForDriver
from app.model.last import LastMessage
from app.model.offsets import Offsets, Position, TopicPartition

Times = np.ndarray[tuple[int], np.dtype[np.float64]]


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a message is."""

    topic: str
    partition: int
    offset: int

    @property
    def position(self) -> Position:
        """The same."""
        return Position(self.topic, self.partition, self.offset)


class Example(msgspec.Struct, frozen=True, array_like=True):
    """A layout (`app.model.rows`), and the first message of the span that has it."""

    layout: str
    first: Place


class Staged(msgspec.Struct, frozen=True, array_like=True):
    """What there is of one layout."""

    layout: str
    first: Place
    #: names of the columns in the key of the first message
    key: tuple[str, ...]
    #: messages that have it
    messages: int
    #: rows that were copied: the last changes of their keys
    rows: int
    #: bytes that were copied
    size: int


class Last(msgspec.Struct, frozen=True, array_like=True):
    """See `app.model.last`."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    timestamp_ms: int | None
    digest: str


class Wanted(msgspec.Struct, frozen=True, tag="wanted"):
    """The span is read; these layouts are in it, and no table was lent for them."""

    id: int
    layouts: tuple[Example, ...]


class Receipt(msgspec.Struct, frozen=True, tag="receipt"):
    """The span is staged up to `ends`: every change before it, compacted to the last one of each key."""

    id: int
    #: before `ends`
    messages: int
    #: of each partition where the epoch has to end (`app.align`), which may be before the span's end
    ends: tuple[Place, ...]
    #: messages behind that
    held: int
    #: first offset of each topic that waits for unread messages of another one
    waiting: tuple[Place, ...]
    staged: tuple[Staged, ...]
    #: distinct source commit times of the changes, milliseconds since 1970, and how many changes have each: int64 as
    #: they lie in memory
    times: bytes
    counts: bytes
    #: of partitions that are staged up to the span's end
    lasts: tuple[Last, ...]
    #: bytes of the decoded rows
    size: int

    @property
    def end(self) -> Offsets:
        """Where the epoch has to end."""
        return offsets_of(self.ends)

    @property
    def source_times(self) -> Times:
        """One for each change, ascending, seconds since 1970."""
        times, counts = (np.frombuffer(each, np.int64) for each in (self.times, self.counts))
        return np.repeat(times, counts).astype(np.float64) / 1000.0


class Rows(msgspec.Struct, frozen=True, tag="rows"):
    """The decoded rows (`app.model.rows`)."""

    id: int
    #: an Arrow IPC stream
    stream: bytes
    lasts: tuple[Last, ...]


class Kept(msgspec.Struct, frozen=True, tag="kept"):
    """The messages as they are archived."""

    id: int
    blocks: tuple[Block, ...]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The rows, or the messages, cannot be had."""

    id: int
    #: name of the error's class
    error: str
    message: str
    hint: str | None


class Doing(msgspec.Struct, frozen=True, tag="doing"):
    """What the process does with a request from now on."""

    id: int
    activity: Activity


class Declined(msgspec.Struct, frozen=True, tag="declined"):
    """Nothing is staged: the span has messages that only the driver can deal with, or it cannot be read."""

    id: int
    because: str
    #: the same, fit to count by
    reason: ForDriver = ForDriver.FAILED


#: the last word on a request
Final = Receipt | Rows | Kept | Declined | Failed
Answer = Wanted | Doing | Final


def offsets_of(places: Iterable[Place]) -> Offsets:
    """One of each partition."""
    return Offsets.of({TopicPartition(one.topic, one.partition): one.offset for one in places})


def places_of(offsets: Mapping[TopicPartition, int]) -> tuple[Place, ...]:
    """The same as they are sent."""
    return tuple(Place(*tp, offset) for tp, offset in offsets.items())


def last_messages(lasts: Iterable[Last]) -> dict[TopicPartition, LastMessage]:
    """What identifies the last message of each partition, as far as it was read."""
    return {
        TopicPartition(one.topic, one.partition): LastMessage(
            offset=one.offset, leader_epoch=one.leader_epoch, timestamp_ms=one.timestamp_ms, digest=one.digest
        )
        for one in lasts
    }
