"""Reads Kafka's messages of a span that the archive has only in part."""

from collections.abc import Iterator

from app.config.settings import SourceSettings
from app.kafka.broker import raw
from app.kafka.spans import SpanReader, WholeBatch
from app.model.message import RawMessage
from app.model.offsets import Span


class KafkaMessages:
    """Reads spans with its own consumer. Used by one thread."""

    def __init__(self, source: SourceSettings) -> None:
        self._reader = SpanReader(source, WholeBatch)

    def read(self, span: Span) -> Iterator[RawMessage]:
        """All messages of the span, each partition's in order. Raises what `SpanReader.read` does."""
        for batch in self._reader.read(span):
            yield from map(raw, batch.messages)

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
