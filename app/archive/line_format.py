"""The lines of an archive file: JSON, readable with `zstdcat`.

    {"archive":1,"lane":"orders","cluster":"...","topics":{"shop.cdc":"<id>"},"epochs":[{"generation":7,"epoch":40,
        "at":1760000000.5,"spans":[{"topic":"shop.cdc","partition":0,"from":120,"to":170}]}]}
    {"topic":"shop.cdc","partition":0,"offset":120,"timestamp":1760000000123,"key":"{...}","value":"{...}"}
    ...
    {"end":{"messages":50,"sha256":"..."}}

UTF-8 bytes are text in `key` and `value`, other bytes are in `key_base64` and `value_base64`; without either the key or
value is null. Messages are in order of epoch, those of a partition by offset. The checksum is of all lines before the
last, with their newlines, so it does not depend on the compression.
"""

import base64
from typing import Self

import msgspec

from app.archive.names import EpochId
from app.archive.offset_ranges import Stretch
from app.model.message import RawMessage
from app.model.offsets import Position, TopicPartition

VERSION = 1


class _Header(msgspec.Struct, omit_defaults=True):
    name: str
    value: str | None = None
    base64: str | None = None


class _Message(msgspec.Struct, omit_defaults=True):
    topic: str
    partition: int
    offset: int
    timestamp: int | None = None
    key: str | None = None
    key_base64: str | None = None
    value: str | None = None
    value_base64: str | None = None
    headers: list[_Header] = []


class SpanLine(msgspec.Struct, frozen=True):
    """A range of offsets of one partition."""

    topic: str
    partition: int
    start: int = msgspec.field(name="from")
    end: int = msgspec.field(name="to")


class EpochLine(msgspec.Struct, frozen=True):
    """An epoch whose messages are in the file; without those that other files had already."""

    generation: int
    epoch: int
    #: when it was written, seconds since 1970
    at: float
    spans: list[SpanLine]

    @classmethod
    def of(cls, one: EpochId, at: float, stretches: list[Stretch]) -> Self:
        return cls(*one, at, [SpanLine(tp.topic, tp.partition, start, end) for tp, start, end in stretches])

    @property
    def id(self) -> EpochId:
        return EpochId(self.generation, self.epoch)

    @property
    def stretches(self) -> list[Stretch]:
        """The epoch's offset ranges in the file."""
        return [Stretch(TopicPartition(one.topic, one.partition), one.start, one.end) for one in self.spans]


class HeadLine(msgspec.Struct, frozen=True):
    """The first line."""

    archive: int
    lane: str
    #: Kafka's ids of the cluster and the topics: offsets are valid only for these
    cluster: str
    topics: dict[str, str]
    epochs: list[EpochLine]

    @property
    def stretches(self) -> list[Stretch]:
        """The offset ranges of all epochs."""
        return [stretch for epoch in self.epochs for stretch in epoch.stretches]


class EndLine(msgspec.Struct, frozen=True):
    messages: int
    sha256: str


class _Last(msgspec.Struct, frozen=True):
    end: EndLine


_ENCODER = msgspec.json.Encoder()
_HEAD, _MESSAGE, _LAST = msgspec.json.Decoder(HeadLine), msgspec.json.Decoder(_Message), msgspec.json.Decoder(_Last)


def write_head(head: HeadLine) -> bytes:
    """The first line."""
    return _ENCODER.encode(head) + b"\n"


def read_head(line: bytes) -> HeadLine:
    """Raises ValueError if it is no head line of this format."""
    head = _HEAD.decode(line)
    if head.archive != VERSION:
        raise ValueError(f"format {head.archive} of the archive is not known")
    return head


def write_message(message: RawMessage) -> bytes:
    """The whole message as a line."""
    topic, partition, offset = message.position
    key, key_base64 = _text(message.key)
    value, value_base64 = _text(message.value)
    headers = [_Header(name, *_text(content)) for name, content in message.headers]
    line = _Message(topic, partition, offset, message.timestamp_ms, key, key_base64, value, value_base64, headers)
    return _ENCODER.encode(line) + b"\n"


def read_message(line: bytes) -> RawMessage:
    """The message of a line; raises ValueError if it is none."""
    read = _MESSAGE.decode(line)
    return RawMessage(
        position=Position(read.topic, read.partition, read.offset),
        key=_bytes(read.key, read.key_base64),
        value=_bytes(read.value, read.value_base64),
        headers=tuple((one.name, _bytes(one.value, one.base64)) for one in read.headers),
        timestamp_ms=read.timestamp,
    )


def write_end(end: EndLine) -> bytes:
    """The last line."""
    return _ENCODER.encode(_Last(end)) + b"\n"


def read_end(line: bytes) -> EndLine:
    """Raises ValueError if it is no last line."""
    return _LAST.decode(line).end


def _text(content: bytes | None) -> tuple[str | None, str | None]:
    if content is None:
        return None, None
    try:
        return str(content, "utf-8"), None
    except UnicodeDecodeError:
        return None, base64.b64encode(content).decode()


def _bytes(text: str | None, coded: str | None) -> bytes | None:
    if text is not None:
        return text.encode()
    return None if coded is None else base64.b64decode(coded, validate=True)
