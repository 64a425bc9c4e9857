"""Messages read and decoded by the driver itself: on one core, without a detour by the JVM.

While the target is busy with an epoch of a backlog the messages behind it are decoded ahead, put in order and staged.
They are not under guard then, so nothing is done ahead while anything is suspected: what kills the process ahead of its
time does so in its own epoch the next time. The user's function never runs ahead.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from app.apply.arrange import Epoch
from app.config.settings import Source
from app.decode.decoding import Decoding, Sql, as_batches
from app.decode.driver import DriverDecoder
from app.kafka.broker import RawMessage
from app.kafka.spans import SpanReader
from app.model.activity import Activity
from app.model.last import LastMessage
from app.model.offsets import Offsets, Span, TopicPartition
from app.source.ahead import Ahead, Decoded
from app.source.size import EpochSize


class DriverMessages:
    """See `app.source.messages`. The streaming query says which offsets an epoch has, and reads none of them."""

    def __init__(
        self,
        source: Source,
        decoder: DriverDecoder,
        transform: Callable[[pa.Table], pa.Table] | None = None,
        *,
        sql: Sql | None = None,
        size: EpochSize | None = None,
        is_suspicious: Callable[[], bool] = lambda: False,
        stage_ahead: Callable[[Epoch], None] = lambda _: None,
        doing: Callable[[Activity], None] = lambda _: None,
    ) -> None:
        """`size`: as many messages are decoded ahead, behind an epoch of so many; `is_suspicious`: whether the guard
        suspects anything; `stage_ahead` is shown what will be an epoch, `doing` what the calling thread does."""
        self._reader, self._decoding = SpanReader(source), Decoding(decoder, transform, sql)
        self._size, self._is_suspicious, self._doing = size, is_suspicious, doing
        self._has_function = transform is not None
        self._ahead = Ahead(self._reader, self._decoding.decoded, stage_ahead if transform is None else None)
        #: the rows that were given last, and what was made of them ahead
        self._arranged: tuple[pa.Table, Epoch] | None = None
        #: lanes side by side share the reader
        self._using = threading.Lock()

    def query(self, messages: DataFrame) -> DataFrame:
        """As they are."""
        return messages

    def last(self, tp: TopicPartition, end: int) -> LastMessage | None:
        """Where a read ended there."""
        return self._reader.last(tp, end)

    def go_to(self, start: Offsets, terms: Mapping[TopicPartition, int]) -> None:
        """Fetched while Spark plans: connecting, too, takes its time."""
        with self._using:
            self._ahead.end()
            self._reader.go_to(start, terms)

    def epoch(self, frame: DataFrame, span: Span) -> pa.Table:  # it is never looked at
        """Read on where the last epoch ended, or take what was read ahead."""
        with self._using:
            rows, rest = self._taken(self._ahead.end(), span)
            if rest is not None and self._size is not None and not self._is_suspicious():
                self._ahead.begin(rest, self._size.messages, self._size.bytes)
        return self._transformed(rows)

    def arranged(self, rows: pa.Table) -> Epoch:
        """As it was arranged ahead, where nobody has changed it since."""
        ready, self._arranged = self._arranged, None
        return ready[1] if ready and ready[0] is rows else Epoch.arrange(rows)

    def part(self, span: Span) -> pa.Table:
        """Wherever it is."""
        with self._using:
            self._ahead.end()
            rows = self._read(span)
        return self._transformed(rows)

    def stored(self, messages: Sequence[RawMessage]) -> pa.Table:
        """One after the other."""
        with self._using:
            self._ahead.end()
            self._doing(Activity.DECODE)
            rows = self._decoding.decoded(as_batches(messages))
        return self._transformed(rows)

    def close(self) -> None:
        """End the connection to Kafka. Spark's thread may be in the midst of an epoch that nobody wants any more: a
        consumer must not be closed under it."""
        self._reader.abandon()
        with self._using:
            self._ahead.close()
            self._reader.close()

    def _taken(self, known: Decoded | None, span: Span) -> tuple[pa.Table, Decoded | None]:
        """The rows of the span; and what there is behind them, None where nothing is to be done ahead."""
        if len(span.end) != 1 or self._size is None:
            return self._read(span), None
        ((tp, end),) = span.end.items()
        if known is None or (known.tp, known.start) != (tp, span.start[tp]):
            rows, rest = self._read(span), Decoded(tp, end, end)
        elif known.end < end:
            missing = self._read(Span(start=Offsets.of({tp: known.end}), end=span.end))
            rows, rest = pa.concat_tables([*known.tables, missing]), Decoded(tp, end, end)
        else:
            rows, epoch, rest = known.up_to(end)
            self._arranged = None if epoch is None else (rows, epoch)
        is_backlog = end - span.start[tp] >= self._size.messages
        return rows, rest if is_backlog or rest.tables else None

    def _read(self, span: Span) -> pa.Table:
        self._doing(Activity.FETCH)
        batches = self._reader.read(span)
        self._doing(Activity.DECODE)
        return self._decoding.decoded(batches)

    def _transformed(self, rows: pa.Table) -> pa.Table:
        if self._has_function:
            self._doing(Activity.FUNCTION)
        return self._decoding.transformed(rows)
