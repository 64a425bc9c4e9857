"""The answers of a stage process, sent as MessagePack."""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from app.archive.file import Block
from app.model.activity import Activity
from app.model.arrow import Indices
from app.model.for_driver import ForDriver
from app.model.last import LastMessage
from app.model.offsets import Offsets, Position, TopicPartition

Times = np.ndarray[tuple[int], np.dtype[np.float64]]


class MessagePlace(msgspec.Struct, frozen=True, array_like=True):
    """The position of a message, as it is sent."""

    topic: str
    partition: int
    offset: int

    @property
    def position(self) -> Position:
        return Position(self.topic, self.partition, self.offset)


class Example(msgspec.Struct, frozen=True, array_like=True):
    """A layout (`app.model.rows`), and the first message of the span that has it."""

    layout: str
    first: MessagePlace


class Staged(msgspec.Struct, frozen=True, array_like=True):
    """What was staged of one layout."""

    layout: str
    first: MessagePlace
    #: names of the columns in the key of the first message
    key: tuple[str, ...]
    #: messages of this layout
    messages: int
    #: the last change of each key
    rows: int
    #: bytes of their lines
    size: int
    #: the last one inserts the rows into the staging table, in the transaction that merges them; (): it has them
    statements: tuple[str, ...] = ()


class Last(msgspec.Struct, frozen=True, array_like=True):
    """The last message of a partition (`app.model.last`), as it is sent."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    timestamp_ms: int | None
    digest: str


class Wanted(msgspec.Struct, frozen=True, tag="wanted"):
    """A request for tables: the span is read, and no table was lent for these layouts in it."""

    id: int
    layouts: tuple[Example, ...]


class Receipt(msgspec.Struct, frozen=True, tag="receipt"):
    """The span is staged up to `ends`, or here are the statements for that: every change before, compacted to the last
    one of each key."""

    id: int
    #: messages before `ends`
    messages: int
    #: for each partition: where the epoch has to end (`app.align`), which may be before the span's end
    ends: tuple[MessagePlace, ...]
    #: messages from `ends` on, which are held
    held: int
    #: first offset of each topic that waits for unread messages of another one
    waiting: tuple[MessagePlace, ...]
    staged: tuple[Staged, ...]
    #: distinct source commit times of the changes, milliseconds since 1970, and how many changes have each: int64 in
    #: native byte order
    times: bytes
    counts: bytes
    #: of partitions that are staged up to the span's end
    lasts: tuple[Last, ...]
    #: bytes of the decoded rows
    size: int
    #: by activity (`app.model.activity`); `server` is the COPY, or the making of the statements
    milliseconds: Mapping[str, float]

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
    """The messages in the archive's format."""

    id: int
    blocks: tuple[Block, ...]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The request for rows or messages failed."""

    id: int
    #: name of the error's class
    error: str
    message: str
    hint: str | None


class Doing(msgspec.Struct, frozen=True, tag="doing"):
    """The activity that the process begins for a request."""

    id: int
    activity: Activity


class Declined(msgspec.Struct, frozen=True, tag="declined"):
    """Nothing is staged: the span has messages that only the driver can process, or its staging failed."""

    id: int
    because: str
    #: the same as one of few values, for metrics
    reason: ForDriver = ForDriver.FAILED


#: the last answer to a request
Final = Receipt | Rows | Kept | Declined | Failed
Answer = Wanted | Doing | Final


def counted(times: Indices) -> tuple[Indices, Indices]:
    """The distinct ones, ascending, and how often each is there."""
    steps = np.diff(times, prepend=times[:1] - 1)
    if len(times) and steps.min() < 0:
        return np.unique(times, return_counts=True)
    bounds = np.flatnonzero(steps)
    return times[bounds], np.diff(bounds, append=len(times))


def offsets_of(places: Iterable[MessagePlace]) -> Offsets:
    """`places`: one for each partition."""
    return Offsets.of({TopicPartition(one.topic, one.partition): one.offset for one in places})


def places_of(offsets: Mapping[TopicPartition, int]) -> tuple[MessagePlace, ...]:
    """The offsets as they are sent."""
    return tuple(MessagePlace(*tp, offset) for tp, offset in offsets.items())


def last_messages(lasts: Iterable[Last]) -> dict[TopicPartition, LastMessage]:
    """What identifies the last message of each partition, in the driver's types."""
    return {
        TopicPartition(one.topic, one.partition): LastMessage(
            offset=one.offset, leader_epoch=one.leader_epoch, timestamp_ms=one.timestamp_ms, digest=one.digest
        )
        for one in lasts
    }
