"""A message of Kafka, as a value: who has it need not have a Kafka client."""

from dataclasses import dataclass

from app.model.last import LastMessage
from app.model.offsets import Position


@dataclass(frozen=True, kw_only=True)
class RawMessage:
    """One message as it lies in Kafka."""

    position: Position
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    #: milliseconds since 1970, None when the topic has none
    timestamp_ms: int | None
    #: term of the leader that appended it; None: not known
    leader_epoch: int | None = None

    @property
    def last(self) -> LastMessage:
        """What identifies it."""
        return LastMessage.of(
            self.position.offset,
            self.key,
            self.value,
            timestamp_ms=self.timestamp_ms,
            leader_epoch=self.leader_epoch,
        )
