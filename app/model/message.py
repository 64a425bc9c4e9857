"""A message of Kafka as a value, without a Kafka client."""

from dataclasses import dataclass

from app.model.last import LastMessage
from app.model.offsets import Position


@dataclass(frozen=True, kw_only=True)
class RawMessage:
    """One message of Kafka, not decoded."""

    position: Position
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    #: milliseconds since 1970; None when the topic has no timestamps
    timestamp_ms: int | None
    #: leader epoch of its append; None: unknown
    leader_epoch: int | None = None

    @property
    def last(self) -> LastMessage:
        return LastMessage.of(
            self.position.offset,
            self.key,
            self.value,
            timestamp_ms=self.timestamp_ms,
            leader_epoch=self.leader_epoch,
        )
