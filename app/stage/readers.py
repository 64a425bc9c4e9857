"""The Kafka consumers of one stage process: one for each lane that it reads for."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from app.config.settings import SourceSettings
from app.kafka.spans import Batch, SpanReader
from app.model.offsets import Offsets, TopicPartition
from app.stage.request import Keep, Request

#: lanes that have a consumer at the same time; the least recently used one is closed
READERS = 16
B = TypeVar("B", bound=Batch)


class Readers(Generic[B]):
    """Used by one thread."""

    def __init__(
        self, source: SourceSettings, batch: Callable[[TopicPartition], B], is_cancelled: Callable[[], bool]
    ) -> None:
        """`batch` makes a partition's empty batch; `is_cancelled`: whether to stop waiting for messages."""
        self._source, self._batch, self._is_cancelled = source, batch, is_cancelled
        self._readers: OrderedDict[str, SpanReader[B]] = OrderedDict()

    def get(self, lane: str) -> SpanReader[B] | None:
        """The lane's reader, None where it has none."""
        return self._readers.get(lane)

    def of(self, request: Request | Keep, start: Offsets) -> SpanReader[B]:
        """The lane's reader; a new one begins at `start`."""
        reader = self._readers.get(request.lane)
        if reader is None:
            reader = self._readers[request.lane] = SpanReader(self._source, self._batch, self._is_cancelled)
            reader.go_to(start, {tp: term for tp, term in request.terms.items() if tp in start})
            if len(self._readers) > READERS:
                self._readers.popitem(last=False)[1].close()
        self._readers.move_to_end(request.lane)
        return reader

    def close(self) -> None:
        """Close the connections."""
        for reader in self._readers.values():
            reader.close()
