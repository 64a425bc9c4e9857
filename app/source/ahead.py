"""What is decoded before it is asked for, while the target is busy with what comes before it."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event

import pyarrow as pa

from app.apply.arrange import Epoch
from app.errors import SurelaneError
from app.kafka.spans import Batch, SpanReader
from app.model.arrow import compute
from app.model.offsets import TopicPartition
from app.model.rows import NO_ROWS

#: messages between two looks whether the rest is wanted
_PIECE = 2_000
#: longest wait for a message: what is not there yet is not waited for
_WAIT_SECONDS = 0.02
#: how long one thread of Python may keep the other from going on, for `sys.setswitchinterval`. With Python's 5 ms an
#: epoch's COPY, which asks for a piece again and again, took 1.6 times as long beside this thread
SWITCH_SECONDS = 0.0005


@dataclass
class Decoded:
    """Rows of one partition from `start` up to `end`."""

    tp: TopicPartition
    start: int
    end: int
    tables: list[pa.Table] = field(default_factory=list)
    #: all of them, arranged; None where that was not done
    epoch: Epoch | None = None

    def up_to(self, end: int) -> tuple[pa.Table, Epoch | None, "Decoded"]:
        """The rows before `end`, what was made of just these, and the others."""
        if self.end == end and len(self.tables) == 1:
            return self.tables[0], self.epoch, Decoded(self.tp, end, end)
        rows = pa.concat_tables([NO_ROWS, *self.tables])
        is_before = compute.less(rows["offset"], end)
        rest = Decoded(self.tp, end, max(end, self.end))
        if self.end > end:
            rest.tables.append(rows.filter(compute.invert(is_before)))
            rows = rows.filter(is_before)
        return rows, None, rest


class Ahead:
    """Reads and decodes ahead, in a thread of its own. The reader is the thread's between `begin` and `end`."""

    def __init__(
        self,
        reader: SpanReader,
        decode: Callable[[list[Batch]], pa.Table],
        arranged: Callable[[Epoch], None] | None = None,
    ) -> None:
        """`arranged`: what is read is put in order, too, as soon as it is an epoch, and shown to it; None: neither."""
        self._reader, self._decode, self._arranged = reader, decode, arranged
        self._thread = ThreadPoolExecutor(1, "ahead")
        self._stop = Event()
        self._future: Future[Decoded | None] | None = None

    def begin(self, known: Decoded, messages: int, size: int) -> None:
        """Go on behind `known`, where the reader stands: for so many offsets, as long as fewer bytes are held."""
        self._stop.clear()
        self._future = self._thread.submit(self._run, known, messages, size)

    def end(self) -> Decoded | None:
        """What there is now; None when there is nothing to go by."""
        future, self._future = self._future, None
        if future is None:
            return None
        self._stop.set()
        return future.result()

    def close(self) -> None:
        """End the thread."""
        self.end()
        self._thread.shutdown()

    def _run(self, known: Decoded, messages: int, size: int) -> Decoded | None:
        end, held = known.start + messages, sum(table.nbytes for table in known.tables)
        known.epoch = None
        try:
            while known.end < end and held < size and not self._stop.is_set():
                batch = self._reader.more(known.tp, min(_PIECE, end - known.end), _WAIT_SECONDS)
                if not batch.offsets:
                    break
                table = self._decode([batch])
                known.tables.append(table)
                known.end = batch.offsets[-1] + 1
                held += table.nbytes
        except (SurelaneError, MemoryError):  # the epoch itself meets it again
            return None
        if self._arranged is not None and known.end == end and known.tables and not self._stop.is_set():
            known.tables = [pa.concat_tables(known.tables).combine_chunks()]
            known.epoch = Epoch.arrange(known.tables[0])
            known.epoch.look_ahead()
            if not self._stop.is_set():
                self._arranged(known.epoch)
        return known
