"""Finds where one lane's epochs end, from the rows of an epoch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from app.align.commit_order import CommitOrder
from app.align.key_changes import halves_from
from app.align.transactions import held_from
from app.errors import TransactionTooLong
from app.model.arrow import compute
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.model.rows import NO_ROWS, is_behind


@dataclass(frozen=True)
class Cut:
    """The rows that were read, in two parts."""

    #: rows that may be applied
    rows: pa.Table
    held: pa.Table
    #: end of the applied part
    end: Offsets

    @classmethod
    def nowhere(cls, rows: pa.Table, end: Offsets) -> Self:
        """A cut that holds no row."""
        return cls(rows, NO_ROWS, end)


class Cutter:
    """Cuts the epochs of one lane. Used by one thread."""

    def __init__(self, lane: str, limit: int | None, order: CommitOrder | None = None) -> None:
        """`limit`: maximum number of messages held for the rest of their source transaction; None: epochs may end
        inside one. `order`: order between topics; None: epochs keep the order within each topic only."""
        self._lane, self._limit, self.order = lane, limit, order

    def cut(self, rows: pa.Table, span: Span, message: Callable[[Position], RawMessage | None]) -> Cut:
        """Separate the rows that may be applied from those that are held. `rows`: all messages of `span`, in any order;
        `message` reads one of them whole. Raises TransactionTooLong, TooManyHeld, ConfigInvalid, Unreachable."""
        early = self.order.cut(rows, span) if self.order is not None else {}
        timely = rows.filter(compute.invert(is_behind(rows, early))) if early else rows
        if self._limit is None:
            waiting = halves_from(timely, span.end, message)
        else:
            waiting = held_from(timely, {tp.topic for tp in span.end}, self._lane)
        if self._limit is not None and waiting:
            self._check(timely.filter(is_behind(timely, waiting)).num_rows, waiting)
        waiting = {**early, **waiting}  # offsets in `waiting` are below those in `early`
        if not waiting:
            return Cut.nowhere(rows, span.end)
        behind = is_behind(rows, waiting)
        return Cut(rows.filter(compute.invert(behind)), rows.filter(behind), span.end.updated(waiting))

    def _check(self, held: int, waiting: dict[TopicPartition, int]) -> None:
        if self._limit is None or held <= self._limit:
            return
        begin = ", ".join(str(Position(*tp, offset)) for tp, offset in waiting.items())
        raise TransactionTooLong(
            f"lane {self._lane}: {held} messages, from {begin} on, wait for the end of the source transaction that "
            f"begins there; epoch.max_transaction_messages is {self._limit}. Nothing of it was applied.",
            hint="raise epoch.max_transaction_messages (a stage process keeps them in memory), or set epoch.align: "
            "none until it is through. A lane over several topics has to read Debezium's transaction topic, too",
        )
