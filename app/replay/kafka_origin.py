"""Messages that Kafka still has."""

from collections.abc import Mapping

from app.kafka.broker import Broker, Watermarks
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition


class KafkaOrigin:
    """See `app.replay.origin`."""

    name = "Kafka"

    def __init__(self, broker: Broker) -> None:
        """`broker` is the caller's, who closes it."""
        self._broker = broker

    def held(self) -> Mapping[TopicPartition, Watermarks]:
        """See `Origin`."""
        return self._broker.watermarks(self._broker.partitions())

    def at(self, timestamp_ms: int) -> Offsets:
        """See `Origin`."""
        return self._broker.offsets_at(timestamp_ms)

    def is_in_kafka(self, span: Span) -> bool:
        """See `Origin`."""
        return True

    def given(self, span: Span) -> None:
        """See `Origin`."""

    def message(self, position: Position) -> RawMessage | None:
        """See `Origin`."""
        return self._broker.message(position)

    def messages(self, start: Position, limit: int) -> list[RawMessage]:
        """See `Origin`."""
        return self._broker.messages(start, limit)

    def close(self) -> None:
        """Nothing is open."""
