"""Messages that Kafka still has."""

from collections.abc import Mapping

from app.config.settings import Source
from app.kafka.broker import Broker, RawMessage, Watermarks
from app.kafka.spans import Batch, SpanReader
from app.model.offsets import Offsets, Position, Span, TopicPartition


class KafkaOrigin:
    """See `app.replay.origin`."""

    name = "Kafka"

    def __init__(self, source: Source, broker: Broker) -> None:
        """`broker` is the caller's, who closes it."""
        self._broker, self._reader = broker, SpanReader(source)

    def held(self) -> Mapping[TopicPartition, Watermarks]:
        """See `Origin`."""
        return self._broker.watermarks(self._broker.partitions())

    def at(self, timestamp_ms: int) -> Offsets:
        """See `Origin`."""
        return self._broker.offsets_at(timestamp_ms)

    def read(self, span: Span) -> list[Batch]:
        """See `Origin`."""
        return self._reader.read(span)

    def message(self, position: Position) -> RawMessage | None:
        """See `Origin`."""
        return self._broker.message(position)

    def messages(self, start: Position, limit: int) -> list[RawMessage]:
        """See `Origin`."""
        return self._broker.messages(start, limit)

    def close(self) -> None:
        """See `Origin`."""
        self._reader.close()
