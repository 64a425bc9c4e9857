"""What the driver sends to a stage process. All of it is MessagePack; nothing that is received is ever unpickled."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import msgspec

from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition


class Range(msgspec.Struct, frozen=True, array_like=True):
    """The offsets from `start` up to `end`, `end` not among them, of one partition."""

    topic: str
    partition: int
    start: int
    end: int
    #: leader epoch of the message before `start`; None: not known
    term: int | None = None


class Clearing(enum.IntEnum):
    """What is done about the rows of attempts before."""

    NONE = 0  #: there are none
    DELETE = 1  #: they are few: a new file costs more
    TRUNCATE = 2


class Table(msgspec.Struct, frozen=True, array_like=True):
    """A staging table that is lent to one attempt."""

    #: quoted, with schema
    name: str
    #: quoted, those that a line has, in its order
    columns: tuple[str, ...]
    clearing: Clearing


#: by a layout's text: where its lines go; None: its changes are left out
Tables = dict[str, Table | None]


class StoredMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message that was kept."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @classmethod
    def of(cls, message: RawMessage) -> Self:
        """To be sent."""
        return cls(*message.position, message.key, message.value, message.headers)

    @property
    def raw(self) -> RawMessage:
        """As it was."""
        return RawMessage(
            position=Position(self.topic, self.partition, self.offset),
            key=self.key,
            value=self.value,
            headers=self.headers,
            timestamp_ms=None,
        )


class _Ranges(msgspec.Struct, frozen=True):
    """What is asked about a span."""

    id: int
    lane: str
    ranges: tuple[Range, ...]

    @property
    def span(self) -> Span:
        """What is to be read."""
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

    #: of the layouts that are likely to be in it; what is missing is asked for (`app.stage.receipt.Wanted`)
    tables: Tables
    #: the decoded rows are wanted, and nothing is staged
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
    """Send the messages of the span as they are archived."""

    #: of zstd
    level: int


class Grant(msgspec.Struct, frozen=True, tag="grant"):
    """The answer to `Wanted`."""

    id: int
    tables: Tables


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Nobody wants this any more."""

    id: int


Work = Request | Decode | Keep
Message = Work | Grant | Cancel


@dataclass(frozen=True)
class KnownTerms:
    """Leader epochs of the messages before some offsets."""

    offsets: Offsets = field(default_factory=Offsets)
    terms: Mapping[TopicPartition, int] = field(default_factory=dict)

    def before(self, tp: TopicPartition, offset: int) -> int | None:
        """Of the message before this one, where it is known."""
        return self.terms.get(tp) if self.offsets.get(tp) == offset else None


def ranges_of(span: Span, known: KnownTerms) -> tuple[Range, ...]:
    """Its partitions, those in which it has no offset among them."""
    return tuple(Range(*tp, span.start[tp], end, known.before(tp, span.start[tp])) for tp, end in span.end.items())
