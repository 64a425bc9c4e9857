"""Where epochs may end: not between the two halves of a changed key (`app.lane.key_changes`), with `epoch.align:
source-transaction` only where source transactions end (`app.lane.transactions`), and over several topics nowhere behind
what is unread in another one (`app.lane.commit_order`).

An epoch applies what was held back before it and what Spark planned for it, up to the last place where it may end. What
lies behind is held: its rows stay in memory, and a lane that opens reads them again. So nothing waits for a message
that is still to come, and what an epoch applies follows from its offsets alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from app.apply.arrange import Epoch
from app.errors import TransactionTooLong
from app.kafka.broker import RawMessage
from app.lane.commit_order import CommitOrder
from app.lane.key_changes import halves_from
from app.lane.reading import Source
from app.lane.transactions import held_from
from app.model.arrow import compute
from app.model.epoch import EpochRecord
from app.model.last import LastMessages
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.model.rows import NO_ROWS, is_behind


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

    def __init__(self, lane: str, limit: int | None, order: CommitOrder | None = None) -> None:
        """`limit`: messages that may be held for their transaction; None: epochs end where Spark has planned it, but
        for a changed key and for `order`, which is None where nothing is known of unread messages."""
        self._lane, self._limit, self.order = lane, limit, order
        #: every message between the last epoch's end and what was read; None: to be read again
        self._rows: pa.Table | None = None

    def span(self, last: EpochRecord, planned: Span) -> Span:
        """What there is to apply: what Spark planned, and what was held before it."""
        start = {tp: last.span.end.get(tp, offset) for tp, offset in planned.start.items()}
        return Span(start=Offsets.of(start), end=planned.end)

    def ends_as_planned(self, planned: Span) -> bool:
        """Whether nothing but a changed key can keep an epoch from ending where Spark has planned it."""
        return self._limit is None and (self.order is None or len(planned.end) == 1)

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
        early = self.order.cut(rows, span) if self.order is not None else {}
        timely = rows.filter(compute.invert(is_behind(rows, early))) if early else rows
        if self._limit is None:
            waiting = halves_from(timely, span.end, source.message)
        else:
            waiting = held_from(timely, {tp.topic for tp in span.end}, self._lane)
        if self._limit is not None and waiting:
            self._check(timely.filter(is_behind(timely, waiting)).num_rows, waiting)
        waiting = {**early, **waiting}  # what is timely is before what is early
        if not waiting:
            return Cut.nowhere(rows, span.end)
        behind = is_behind(rows, waiting)
        return Cut(rows.filter(compute.invert(behind)), rows.filter(behind), span.end.updated(waiting))

    def keep(self, held: pa.Table | None, end: Offsets) -> None:
        """An epoch is written up to `end`; `held` is what the next one begins with, None: it is to be read again."""
        self._rows = held
        if self.order is not None:
            self.order.keep(end)

    def _check(self, held: int, waiting: dict[TopicPartition, int]) -> None:
        if self._limit is None or held <= self._limit:
            return
        begin = ", ".join(str(Position(*tp, offset)) for tp, offset in waiting.items())
        raise TransactionTooLong(
            f"lane {self._lane}: {held} messages, from {begin} on, wait for the end of the source transaction that "
            f"begins there; epoch.max_transaction_messages is {self._limit}. Nothing of it was applied.",
            hint="raise epoch.max_transaction_messages (they are held in the driver's memory), or set epoch.align: "
            "none until it is through. A lane over several topics has to read Debezium's transaction topic, too",
        )


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
