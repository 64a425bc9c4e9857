"""Rows that the driver needs itself, read and decoded by the tasks that stage: of epochs with a suspect, or whose order
matters."""

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from app.dispatch.pool import Pool, StageAttempt
from app.model.last import LastMessage
from app.model.message import RawMessage
from app.model.offsets import Offsets, Span, TopicPartition
from app.source.waiting import answer_of, nothing
from app.stage.receipt import Rows, last_messages
from app.stage.request import KnownTerms, StoredMessage, ranges_of

#: ends of reads whose last messages are remembered
_REMEMBERED = 1024


class TaskMessages:
    """Reads rows as in `app.model.rows`. Raises SurelaneErrors, with verdict POISON where a message may be the cause;
    TaskDied where a task dies over them."""

    def __init__(
        self,
        pool: Pool,
        lane: str,
        still: Callable[[], None],
        foresee: Callable[[Span, Offsets], Sequence[Span]],
        is_suspicious: Callable[[], bool],
    ) -> None:
        """`still` is called repeatedly while the thread waits for a task; `foresee`: epochs that probably follow the
        given one; `is_suspicious`: whether the guard suspects anything."""
        self._pool, self._lane, self._still = pool, lane, still
        self._foresee, self._is_suspicious = foresee, is_suspicious
        #: the span that is read ahead, and its attempt
        self._ahead: tuple[Span, StageAttempt] | None = None
        self._known = KnownTerms()
        self._lasts: dict[tuple[TopicPartition, int], LastMessage] = {}

    def last(self, tp: TopicPartition, end: int) -> LastMessage | None:
        """What identifies the last message before `end`, None where no read ended there."""
        return self._lasts.get((tp, end))

    def go_to(self, start: Offsets, terms: Mapping[TopicPartition, int]) -> None:
        """Set where the first epoch begins. `terms`: leader epochs of the messages before `start`, where known."""
        self._known = KnownTerms(start, terms)

    def epoch(self, span: Span) -> pa.Table:
        """Every row of an epoch. Begins to read the next one ahead, where one is foreseen."""
        if self._ahead is not None and self._ahead[0] != span:
            self.read_nothing()
        ahead, self._ahead = self._ahead, None
        rows = self._read(span, ahead[1] if ahead else None)
        if not self._is_suspicious() and (spans := self._foresee(span, span.end)):
            self._ahead = (spans[0], self._pool.read(self._lane, ranges_of(spans[0], self._known)))
        return rows

    def part(self, span: Span) -> pa.Table:
        """The rows of any span."""
        return self._read(span)

    def stored(self, messages: Sequence[RawMessage]) -> pa.Table:
        """The rows of stored messages."""
        kept = [StoredMessage.of(one) for one in messages]
        return _table(self._answer(self._pool.decode(self._lane, kept)))

    def read_nothing(self) -> None:
        """Cancel what is read ahead: the next epoch is staged, or there is none."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self._pool.cancel(ahead[1], nothing)

    def _read(self, span: Span, attempt: StageAttempt | None = None) -> pa.Table:
        found = self._answer(attempt or self._pool.read(self._lane, ranges_of(span, self._known)))
        for tp, last in last_messages(found.lasts).items():
            self._lasts[tp, span.end[tp]] = last
        while len(self._lasts) > _REMEMBERED:
            self._lasts.pop(next(iter(self._lasts)))
        return _table(found)

    def _answer(self, attempt: StageAttempt) -> Rows:
        answer = answer_of(self._pool, attempt, self._still)
        assert isinstance(answer, Rows), "rows were asked for"
        return answer


def _table(rows: Rows) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(rows.stream)) as stream:
        return stream.read_all()
