"""Reads whole messages from Kafka a second time, for the archive. The driver writes the archive's files."""

from collections.abc import Callable

from app.archive.file import blocks
from app.config.settings import SourceSettings
from app.kafka.broker import raw
from app.kafka.spans import SpanReader, WholeBatch
from app.model.activity import Activity
from app.stage.failure import or_failed
from app.stage.readers import Readers
from app.stage.receipt import Failed, Kept
from app.stage.request import Keep


class Archiving:
    """One for each stage process. Used by one thread."""

    def __init__(
        self, source: SourceSettings, is_cancelled: Callable[[], bool], doing: Callable[[Activity], None]
    ) -> None:
        """`is_cancelled`: whether to stop waiting for messages; `doing` gets each activity before it begins."""
        self._readers = Readers[WholeBatch](lambda reader, _: reader or SpanReader(source, WholeBatch, is_cancelled))
        self._doing = doing

    def kept(self, request: Keep) -> Kept | Failed:
        """Every message of the span. Errors are returned as `Failed`."""
        return or_failed(request.id, lambda: self._read(request))

    def _read(self, request: Keep) -> Kept:
        self._doing(Activity.FETCH)
        batches = self._readers.of(request, request.span.start).read(request.span)
        self._doing(Activity.DECODE)
        found = (raw(message) for batch in batches for message in batch.messages)
        return Kept(request.id, tuple(blocks(found, request.level)))
