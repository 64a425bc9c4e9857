"""The rows of a request: reads its messages from Kafka or takes those given, decodes them, runs the user's function."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import structlog

from app.config.settings import SecurityProtocol, SourceSettings
from app.decode.decoding import Decoding, as_batches
from app.kafka.batch import Batch
from app.kafka.block_reader import BlockReader
from app.kafka.broker import Broker
from app.kafka.exact_reader import ExactReader
from app.kafka.gather import loaded
from app.kafka.spans import SpanReader
from app.model.activity import Activity
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span
from app.model.rows import NO_ROWS
from app.stage.readers import READERS, Readers
from app.stage.receipt import Last
from app.stage.request import Request

log = structlog.get_logger()

#: messages of a span that is worth loading compiled code for
WORTH_BLOCKS = 10_000
#: messages that are decoded at once: so many fit into the processor's cache
_PIECE = 2_000


@dataclass(frozen=True)
class _Held:
    """Rows of a lane that were read and are held for its next epoch."""

    start: Offsets
    end: Offsets
    rows: pa.Table


class SpanReading:
    """One for each stage process. Used by one thread."""

    def __init__(
        self,
        source: SourceSettings,
        decoding: Decoding,
        is_cancelled: Callable[[], bool],
        doing: Callable[[Activity], None],
        *,
        has_function: bool,
    ) -> None:
        """`is_cancelled`: whether to stop waiting for messages; `doing` gets each activity before it begins."""
        self._source, self._decoding = source, decoding
        self._doing, self._has_function = doing, has_function
        self._is_cancelled = is_cancelled
        self._readers = Readers(self._reader)
        self._takes_blocks = source.compiled and source.security.protocol is not SecurityProtocol.MSK_IAM
        self._held: dict[str, _Held] = {}
        self._broker: Broker | None = None

    @property
    def broker(self) -> Broker:
        """For reads that are no spans; connected when it is first used."""
        if self._broker is None:
            self._broker = Broker(self._source)
        return self._broker

    def close(self) -> None:
        """Close the connections."""
        self._readers.close()
        if self._broker is not None:
            self._broker.close()

    def rows(self, request: Request) -> pa.Table:
        """All rows of the span, in any order."""
        if request.given:
            return self.stored([one.raw for one in request.given])
        held = self._take_held(request)
        span = request.span if held is None else Span(start=held.end, end=request.span.end)
        reader = self._readers.of(request, span.start)
        rows = [NO_ROWS if held is None else held.rows]
        for piece in _pieces(span):
            self._doing(Activity.FETCH)
            found = reader.read(piece)
            self._doing(Activity.DECODE)
            rows.append(self._decoding.decoded(found))
        return pa.concat_tables([rows[0], self._transformed(pa.concat_tables([NO_ROWS, *rows[1:]]))])

    def stored(self, messages: list[RawMessage]) -> pa.Table:
        """The rows of stored messages."""
        self._doing(Activity.DECODE)
        parts = (messages[first : first + _PIECE] for first in range(0, len(messages), _PIECE))
        rows = [self._decoding.decoded(as_batches(part)) for part in parts]
        return self._transformed(pa.concat_tables([NO_ROWS, *rows]))

    def hold(self, request: Request, start: Offsets, rows: pa.Table) -> None:
        """Keep the rows from `start` up to the span's end: the lane's next span probably begins there."""
        if not request.given:
            self._held[request.lane] = _Held(start, request.span.end, rows)
            while len(self._held) > READERS:
                self._held.pop(next(iter(self._held)))

    def message(self, request: Request) -> Callable[[Position], RawMessage | None]:
        """A function that reads one message of the span whole."""
        given = {Position(one.topic, one.partition, one.offset): one for one in request.given}

        def read(position: Position) -> RawMessage | None:
            return given[position].raw if position in given else self.broker.message(position)

        return read

    def lasts(self, request: Request, end: Offsets) -> tuple[Last, ...]:
        """What identifies the last message of each partition that was read up to `end`."""
        reader = self._readers.get(request.lane)
        if reader is None or request.given:
            return ()
        found = {tp: reader.last(tp, offset) for tp, offset in end.items()}
        return tuple(
            Last(*tp, one.offset, one.leader_epoch, one.timestamp_ms, one.digest)
            for tp, one in found.items()
            if one is not None
        )

    def _reader(self, reader: ExactReader[Batch] | None, span: Span) -> ExactReader[Batch]:
        """A reader of blocks from the first long span on, as long as the lane has one partition."""
        is_single = len(span.start) == len(span.end) == 1
        if isinstance(reader, BlockReader) and is_single:
            return reader
        if is_single and span.size >= WORTH_BLOCKS and (found := self._block_reader()) is not None:
            return found
        if reader is None or isinstance(reader, BlockReader):
            return SpanReader(self._source, is_unwanted=self._is_cancelled)
        return reader

    def _block_reader(self) -> BlockReader | None:
        """None where blocks are not read."""
        if not self._takes_blocks:
            return None
        try:
            return BlockReader(self._source, loaded(), self._is_cancelled)
        except Exception as error:  # noqa: BLE001  # of the compiled code, or of librdkafka
            self._takes_blocks = False
            log.warning("messages are read one by one, slower", because=f"{type(error).__name__}: {error}")
            return None

    def _take_held(self, request: Request) -> _Held | None:
        held, span = self._held.pop(request.lane, None), request.span
        if held is None or held.start != span.start or any(held.end[tp] > end for tp, end in span.end.items()):
            return None
        return held

    def _transformed(self, rows: pa.Table) -> pa.Table:
        if self._has_function:
            self._doing(Activity.FUNCTION)
        return self._decoding.transformed(rows)


def _pieces(span: Span) -> Iterator[Span]:
    """Consecutive pieces of a span in one partition; a span in several stays whole."""
    moved = {tp: end for tp, end in span.end.items() if end > span.start[tp]}
    if len(moved) != 1:
        yield span
        return
    ((tp, end),) = moved.items()
    for start in range(span.start[tp], end, _PIECE):
        yield Span.of(tp, start, min(start + _PIECE, end))
