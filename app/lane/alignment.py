"""What a lane has read and not applied yet: an epoch applies what was held before it and what Spark planned for it, up
to the last place where it may end (`app.align`). What lies behind is held: it is read again, unless its rows are in
memory."""

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
    """What one lane has read and not applied. Used by the lane's thread only."""

    def __init__(self, lane: str, limit: int | None, order: CommitOrder | None = None) -> None:
        """`limit`: messages that may be held for their transaction; None: epochs end where Spark has planned it, but
        for a changed key and for `order`, which is None where nothing is known of unread messages."""
        self._cutter = Cutter(lane, limit, order)
        #: every message between the last epoch's end and what was read; None: to be read again
        self._rows: pa.Table | None = None

    @property
    def order(self) -> CommitOrder | None:
        """Between topics."""
        return self._cutter.order

    @order.setter
    def order(self, order: CommitOrder | None) -> None:
        self._cutter.order = order

    def span(self, last: EpochRecord, planned: Span) -> Span:
        """What there is to apply: what Spark planned, and what was held before it."""
        start = {tp: last.span.end.get(tp, offset) for tp, offset in planned.start.items()}
        return Span(start=Offsets.of(start), end=planned.end)

    def source(self, source: EpochRows, span: Span, planned: Span) -> EpochRows:
        """Where the messages of `span` come from, when `source` has those of `planned`."""
        if span == planned:
            return source
        if span.end != planned.end:  # an epoch once more that did not come to the end of what was planned
            return _Source(source, lambda: source.part(span))
        before = Span(start=span.start, end=planned.start)
        held = self._rows
        return _Source(source, lambda: pa.concat_tables([source.part(before) if held is None else held, source.all()]))

    def cut(self, rows: pa.Table, span: Span, source: EpochRows) -> Cut:
        """See `Cutter.cut`."""
        return self._cutter.cut(rows, span, source.message)

    def keep(self, held: pa.Table | None, end: Offsets) -> None:
        """An epoch is written up to `end`; `held` is what the next one begins with, None: it is to be read again."""
        self._rows = held
        if self.order is not None:
            self.order.keep(end)


@dataclass(frozen=True)
class _Source:
    """The messages of an epoch that is not quite what Spark planned."""

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
