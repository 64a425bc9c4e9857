"""Messages read and decoded by the driver itself: on one core, without a detour by the JVM."""

import threading
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from app.config.settings import Source
from app.decode.driver import DriverDecoder
from app.errors import JobFailed, SurelaneError
from app.kafka.broker import RawMessage
from app.kafka.spans import Batch, SpanReader
from app.model.offsets import Span


class DriverMessages:
    """See `app.source.messages`. The streaming query says which offsets an epoch has, and reads none of them."""

    def __init__(
        self, source: Source, decoder: DriverDecoder, transform: Callable[[pa.Table], pa.Table] | None
    ) -> None:
        self._reader = SpanReader(source)
        self._decoder, self._transform = decoder, transform
        #: lanes side by side share the reader
        self._using = threading.Lock()

    def query(self, messages: DataFrame) -> DataFrame:
        """As they are."""
        return messages

    def epoch(self, frame: DataFrame, span: Span) -> pa.Table:  # it is never looked at
        """Read on where the last epoch ended."""
        return self.part(span)

    def part(self, span: Span) -> pa.Table:
        """Wherever it is."""
        with self._using:
            return self._decoded(self._reader.read(span))

    def stored(self, messages: Sequence[RawMessage]) -> pa.Table:
        """One after the other."""
        with self._using:
            return self._decoded(
                [Batch(one.position.tp, [one.position.offset], [one.key], [one.value]) for one in messages]
            )

    def close(self) -> None:
        """End the connection to Kafka."""
        self._reader.close()

    def _decoded(self, batches: Sequence[Batch]) -> pa.Table:
        try:
            rows = self._decoder.decode(batches)
            return rows if self._transform is None else self._transform(rows)
        except SurelaneError:
            raise
        except Exception as error:
            raise JobFailed(f"could not be decoded: {type(error).__name__}: {error}") from error
