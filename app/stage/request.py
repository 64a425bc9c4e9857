"""The driver's messages to a stage process, sent as MessagePack: nothing that is received is ever unpickled."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import msgspec

from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition


class Range(msgspec.Struct, frozen=True, array_like=True):
    """Offsets of one partition, from `start` up to `end`, without `end`."""

    topic: str
    partition: int
    start: int
    end: int
    #: leader epoch of the message before `start`; None: unknown
    term: int | None = None


class Clearing(enum.IntEnum):
    """How the rows of earlier attempts are removed."""

    NONE = 0  #: there are none
    DELETE = 1  #: they are few: a new file costs more
    TRUNCATE = 2


class Instant(msgspec.Struct, frozen=True, array_like=True):
    """A value of a line that may be staged as microseconds since 1970, which Postgres need not parse."""

    #: of the value in a line
    index: int
    #: for its microseconds, quoted
    column: str
    #: microseconds of a number; 0: ISO text
    unit: int


class Table(msgspec.Struct, frozen=True, array_like=True):
    """A staging table, lent to one attempt."""

    #: quoted, with schema
    name: str
    #: quoted, in the order of a line's values
    columns: tuple[str, ...]
    clearing: Clearing
    #: whether source time and position precede each line
    stamped: bool = False
    #: points in time among the values of a line, in their order
    instants: tuple[Instant, ...] = ()


#: by layout text: the table for its lines; None: its changes are left out
Tables = dict[str, Table | None]


class StoredMessage(msgspec.Struct, frozen=True, array_like=True):
    """A stored message, as it is sent."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @classmethod
    def of(cls, message: RawMessage) -> Self:
        return cls(*message.position, message.key, message.value, message.headers)

    @property
    def raw(self) -> RawMessage:
        """The message without its timestamp, which is not sent."""
        return RawMessage(
            position=Position(self.topic, self.partition, self.offset),
            key=self.key,
            value=self.value,
            headers=self.headers,
            timestamp_ms=None,
        )


class _Ranges(msgspec.Struct, frozen=True):
    """A request about a span."""

    id: int
    lane: str
    ranges: tuple[Range, ...]

    @property
    def span(self) -> Span:
        """The span to read."""
        return Span(
            start=Offsets.of({TopicPartition(one.topic, one.partition): one.start for one in self.ranges}),
            end=Offsets.of({TopicPartition(one.topic, one.partition): one.end for one in self.ranges}),
        )

    @property
    def terms(self) -> dict[TopicPartition, int]:
        """Leader epochs of the messages before the span, where they are known."""
        return {TopicPartition(one.topic, one.partition): one.term for one in self.ranges if one.term is not None}


class Request(_Ranges, frozen=True, tag="request"):
    """Read a span: stage it, or send its rows."""

    #: for layouts that the span probably has; missing ones are requested (`app.stage.receipt.Wanted`)
    tables: Tables
    #: send the decoded rows and stage nothing
    wants_rows: bool = False
    #: the messages of the span, where they are not to be read from Kafka
    given: tuple[StoredMessage, ...] = ()
    #: message keys whose changes wait in quarantine: an epoch that has one of them is for the driver
    held_keys: tuple[str, ...] = ()


class Decode(msgspec.Struct, frozen=True, tag="decode"):
    """Send the rows of these messages."""

    id: int
    lane: str
    messages: tuple[StoredMessage, ...]


class Keep(_Ranges, frozen=True, tag="keep"):
    """Send the messages of the span in the archive's format."""

    #: zstd's compression level
    level: int


class Grant(msgspec.Struct, frozen=True, tag="grant"):
    """The answer to `Wanted`."""

    id: int
    tables: Tables


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Cancels a request."""

    id: int


Work = Request | Decode | Keep
Message = Work | Grant | Cancel


@dataclass(frozen=True)
class KnownTerms:
    """Leader epochs of the messages before `offsets`."""

    offsets: Offsets = field(default_factory=Offsets)
    terms: Mapping[TopicPartition, int] = field(default_factory=dict)

    def before(self, tp: TopicPartition, offset: int) -> int | None:
        """The leader epoch of the message before this offset, None where unknown."""
        return self.terms.get(tp) if self.offsets.get(tp) == offset else None


def ranges_of(span: Span, known: KnownTerms) -> tuple[Range, ...]:
    """A range for each partition of the span, also for those in which it has no offset."""
    return tuple(Range(*tp, span.start[tp], end, known.before(tp, span.start[tp])) for tp, end in span.end.items())
