"""Identifies the last message of a partition that a lane has applied.

An offset is not enough: a log that lost its end (unclean leader election, lost disk) reuses it for another message.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from app.model.offsets import TopicPartition

_DIGEST_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class LastMessage:
    """Offset of a message, with the attributes that identify it."""

    offset: int
    #: leader epoch of its append; None: unknown (an archived message, an old format)
    leader_epoch: int | None
    #: milliseconds since 1970; None when the topic has no timestamps
    timestamp_ms: int | None
    #: hash of key and value, in hex
    digest: str

    @classmethod
    def of(
        cls, offset: int, key: bytes | None, value: bytes | None, *, timestamp_ms: int | None, leader_epoch: int | None
    ) -> Self:
        """From a message of Kafka; a negative leader epoch is unknown."""
        known = leader_epoch if leader_epoch is not None and leader_epoch >= 0 else None
        return cls(offset=offset, leader_epoch=known, timestamp_ms=timestamp_ms, digest=_digest(key, value))

    def is_other(self, now: "LastMessage") -> bool:
        """Whether `now`, at the same offset, is another message; attributes that one of them lacks are not compared."""
        pairs = (
            (self.digest, now.digest),
            (self.timestamp_ms, now.timestamp_ms),
            (self.leader_epoch, now.leader_epoch),
        )
        return any(was != is_ for was, is_ in pairs if was is not None and is_ is not None)

    def __str__(self) -> str:
        epoch = "unknown" if self.leader_epoch is None else self.leader_epoch
        return f"leader epoch {epoch}, timestamp {self.timestamp_ms}, digest {self.digest}"


LastMessages = Mapping[TopicPartition, LastMessage]


def nested(last: LastMessages) -> dict[str, dict[str, Any]]:
    """As `{topic: {"partition": {...}}}`, for the ledger."""
    result: dict[str, dict[str, Any]] = {}
    for tp, one in sorted(last.items()):
        result.setdefault(tp.topic, {})[str(tp.partition)] = asdict(one)
    return result


def from_nested(found: Mapping[str, Mapping[str, Any]] | None) -> dict[TopicPartition, LastMessage]:
    """Inverse of `nested`; None, in a row of an older version, gives an empty map."""
    each = (found or {}).items()
    return {TopicPartition(topic, int(p)): LastMessage(**one) for topic, parts in each for p, one in parts.items()}


def _digest(key: bytes | None, value: bytes | None) -> str:
    """Includes the lengths, so that moving a byte from key to value changes the digest."""
    made = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in (key, value):
        made.update(b"-" if part is None else b"%d:" % len(part) + part)
    return made.hexdigest()
