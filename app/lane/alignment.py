"""Where epochs may end: not between the two halves of a changed key (`app.lane.key_changes`), and with `epoch.align:
source-transaction` only where source transactions end (`app.lane.transactions`).

An epoch applies what was held back before it and what Spark planned for it, up to the last place where it may end. What
lies behind is held: its rows stay in memory, and a lane that opens reads them again. So nothing waits for a message
that is still to come, and what an epoch applies follows from its offsets alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa

from app.apply.arrange import Epoch
from app.errors import TransactionTooLong
from app.kafka.broker import RawMessage
from app.lane.key_changes import halves_from
from app.lane.reading import Source
from app.lane.transactions import held_from
from app.model.arrow import compute
from app.model.epoch import EpochRecord
from app.model.last import LastMessages
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.model.rows import NO_ROWS


@dataclass(frozen=True)
class Cut:
    """What was read, in two."""

    #: what may be applied
    rows: pa.Table
    held: pa.Table
    #: where the first part ends
    end: Offsets

    @classmethod
    def nowhere(cls, rows: pa.Table, end: Offsets) -> "Cut":
        """Nothing has to wait."""
        return cls(rows, NO_ROWS, end)


class Alignment:
    """What one lane has read and not applied. Used by the lane's thread only."""

    def __init__(self, lane: str, limit: int | None) -> None:
        """`limit`: messages that may be held for their transaction; None: epochs end where Spark has planned it, but
        for a changed key."""
        self._lane, self._limit = lane, limit
        #: every message between the last epoch's end and what was read; None: to be read again
        self._rows: pa.Table | None = None

    def span(self, last: EpochRecord, planned: Span) -> Span:
        """What there is to apply: what Spark planned, and what was held before it."""
        start = {tp: last.span.end.get(tp, offset) for tp, offset in planned.start.items()}
        return Span(start=Offsets.of(start), end=planned.end)

    def source(self, source: Source, span: Span, planned: Span) -> Source:
        """Where the messages of `span` come from, when `source` has those of `planned`."""
        if span == planned:
            return source
        if span.end != planned.end:  # an epoch once more that did not come to the end of what was planned
            return _Source(source, lambda: source.part(span))
        before = Span(start=span.start, end=planned.start)
        held = self._rows
        return _Source(source, lambda: pa.concat_tables([source.part(before) if held is None else held, source.all()]))

    def cut(self, rows: pa.Table, span: Span, source: Source) -> Cut:
        """Part what may be applied from what has to wait."""
        if self._limit is None:
            waiting = halves_from(rows, span.end, source.message)
        else:
            waiting = held_from(rows, {tp.topic for tp in span.end}, self._lane)
        if not waiting:
            return Cut.nowhere(rows, span.end)
        behind = _is_behind(rows, waiting)
        cut = Cut(rows.filter(compute.invert(behind)), rows.filter(behind), span.end.updated(waiting))
        if self._limit is not None and cut.held.num_rows > self._limit:
            raise self._too_long(cut.held.num_rows, waiting)
        return cut

    def keep(self, held: pa.Table | None) -> None:
        """An epoch is written; `held` is what the next one begins with, None: it is to be read again."""
        self._rows = held

    def _too_long(self, held: int, waiting: dict[TopicPartition, int]) -> TransactionTooLong:
        begin = ", ".join(str(Position(*tp, offset)) for tp, offset in waiting.items())
        return TransactionTooLong(
            f"lane {self._lane}: {held} messages, from {begin} on, wait for the end of the source transaction that "
            f"begins there; epoch.max_transaction_messages is {self._limit}. Nothing of it was applied.",
            hint="raise epoch.max_transaction_messages (they are held in the driver's memory), or set epoch.align: "
            "none until it is through. A lane over several topics has to read Debezium's transaction topic, too",
        )


def _is_behind(rows: pa.Table, waiting: dict[TopicPartition, int]) -> pa.ChunkedArray:
    """For each row whether it is one of those that have to wait."""
    each = (
        compute.and_(compute.equal(rows["topic"], tp.topic), compute.greater_equal(rows["offset"], first))
        for tp, first in waiting.items()
    )
    return reduce(compute.or_, each)


@dataclass(frozen=True)
class _Source:
    """The messages of an epoch that is not quite what Spark planned."""

    planned: Source
    read: Callable[[], pa.Table]

    def all(self) -> pa.Table:
        return self.read()

    def part(self, span: Span) -> pa.Table:
        return self.planned.part(span)

    def arranged(self, rows: pa.Table) -> Epoch:
        return self.planned.arranged(rows)

    def message(self, position: Position) -> RawMessage | None:
        return self.planned.message(position)

    def messages(self, positions: Sequence[Position]) -> list[RawMessage | None]:
        return self.planned.messages(positions)

    def identified(self, span: Span) -> LastMessages:
        return self.planned.identified(span)
