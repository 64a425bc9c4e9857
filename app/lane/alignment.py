"""Messages that a lane has read and not applied yet: an epoch applies those held before it and those that Spark planned
for it, up to the last position where it may end (`app.align`). Later ones are held: they are read again, unless their
rows are in memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from app.align.commit_order import CommitOrder
from app.align.cutter import Cut, Cutter
from app.model.epoch import EpochRecord
from app.model.last import LastMessages
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span
from app.poison.epoch_rows import EpochRows


class Alignment:
    """The held messages of one lane. Used by the lane's thread only."""

    def __init__(self, lane: str, limit: int | None, order: CommitOrder | None = None) -> None:
        """`limit`: messages that may be held for their transaction; None: epochs end where Spark planned it, except for
        a changed key and for `order`, which is None where nothing is known of unread messages."""
        self._cutter = Cutter(lane, limit, order)
        #: rows between the last epoch's end and the end of what was read; None: to be read again
        self._rows: pa.Table | None = None

    @property
    def order(self) -> CommitOrder | None:
        """The commit order between topics."""
        return self._cutter.order

    @order.setter
    def order(self, order: CommitOrder | None) -> None:
        self._cutter.order = order

    def span(self, last: EpochRecord, planned: Span) -> Span:
        """The span to apply: what Spark planned, and what is held before it."""
        start = {tp: last.span.end.get(tp, offset) for tp, offset in planned.start.items()}
        return Span(start=Offsets.of(start), end=planned.end)

    def source(self, source: EpochRows, span: Span, planned: Span) -> EpochRows:
        """A source of the messages of `span`, made from `source`, which has those of `planned`."""
        if span == planned:
            return source
        if span.end != planned.end:  # a repeated epoch that ended before what was planned
            return _ReadEpoch(source, lambda: source.part(span))
        before = Span(start=span.start, end=planned.start)
        held = self._rows
        return _ReadEpoch(
            source, lambda: pa.concat_tables([source.part(before) if held is None else held, source.all()])
        )

    def cut(self, rows: pa.Table, span: Span, source: EpochRows) -> Cut:
        return self._cutter.cut(rows, span, source.message)

    def keep(self, held: pa.Table | None, end: Offsets) -> None:
        """Note that an epoch is written up to `end`. `held`: rows that begin the next one; None: to be read again."""
        self._rows = held
        if self.order is not None:
            self.order.keep(end)


@dataclass(frozen=True)
class _ReadEpoch:
    """The messages of an epoch whose span is not the one that Spark planned."""

    planned: EpochRows
    read: Callable[[], pa.Table]

    def all(self) -> pa.Table:
        return self.read()

    def part(self, span: Span) -> pa.Table:
        return self.planned.part(span)

    def message(self, position: Position) -> RawMessage | None:
        return self.planned.message(position)

    def messages(self, positions: Sequence[Position]) -> list[RawMessage | None]:
        return self.planned.messages(positions)

    def identified(self, span: Span) -> LastMessages:
        return self.planned.identified(span)
