"""Messages that Kafka still has."""

from collections.abc import Mapping

from app.kafka.broker import Broker, Watermarks
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition


class KafkaOrigin:
    """An `Origin` without an archive."""

    name = "Kafka"

    def __init__(self, broker: Broker) -> None:
        """The caller owns and closes `broker`."""
        self._broker = broker

    def held(self) -> Mapping[TopicPartition, Watermarks]:
        return self._broker.watermarks(self._broker.partitions())

    def at(self, timestamp_ms: int) -> Offsets:
        return self._broker.offsets_at(timestamp_ms)

    def is_in_kafka(self, span: Span) -> bool:
        return True

    def given(self, span: Span) -> None:
        """None: Kafka has all of them."""

    def message(self, position: Position) -> RawMessage | None:
        return self._broker.message(position)

    def messages(self, start: Position, limit: int) -> list[RawMessage]:
        return self._broker.messages(start, limit)

    def close(self) -> None:
        """Does nothing: the caller closes the broker."""
