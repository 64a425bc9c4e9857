"""What the archive keeps, read from Kafka by itself: whoever decodes an epoch need not hold its bytes for it."""

from collections.abc import Iterator
from threading import Lock

from app.config.settings import Source
from app.kafka.broker import RawMessage, raw
from app.kafka.spans import SpanReader, WholeBatch
from app.model.offsets import Span


class KafkaMessages:
    """See `app.archive.participant.Messages`. A consumer of its own."""

    def __init__(self, source: Source) -> None:
        self._reader = SpanReader(source, WholeBatch)
        self._using = Lock()

    def read(self, span: Span) -> Iterator[RawMessage]:
        """See Messages."""
        with self._using:
            batches = self._reader.read(span)
        for batch in batches:
            yield from map(raw, batch.messages)

    def close(self) -> None:
        """Whoever reads gives up."""
        self._reader.abandon()
        with self._using:
            self._reader.close()
