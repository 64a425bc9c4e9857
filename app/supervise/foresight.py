"""Which spans the next epochs are likely to have: those of a backlog of one partition are cut alike."""

from app.config.settings import Stage
from app.kafka.broker import Broker
from app.model.offsets import Offsets, Span, TopicPartition
from app.source.size import EpochSize


class Foresight:
    """Of lanes over one partition each; of any other nothing is foreseen. Used by one thread a partition."""

    def __init__(self, broker: Broker, size: EpochSize, stage: Stage, tasks: int) -> None:
        """`tasks`: how many stage at the same time."""
        self._broker, self._size, self._stage, self._tasks = broker, size, stage, tasks
        #: behind the last message of each partition, when it was looked at
        self._highs: dict[TopicPartition, int] = {}

    def first(self, start: Offsets) -> list[Span]:
        """The first epoch of a query that begins here."""
        if len(start) != 1:
            return []
        ((tp, offset),) = start.items()
        end = min(offset + self._size.messages, self._known(tp, offset + self._size.messages))
        return [Span.of(tp, offset, end)] if end > offset else []

    def after(self, span: Span, size: int) -> list[Span]:
        """Those after an epoch whose rows take so many bytes, as many as may be staged ahead."""
        if len(span.end) != 1:
            return []
        ((tp, end),) = span.end.items()
        step = self._size.messages
        if end - span.start[tp] < step:
            return []
        most = min(self._tasks + 1, self._stage.ahead_bytes // max(size, 1))
        ends = range(end + step, min(end + step * most, self._known(tp, end + step * most)) + 1, step)
        return [Span.of(tp, last - step, last) for last in ends]

    def _known(self, tp: TopicPartition, wanted: int) -> int:
        if self._highs.get(tp, 0) < wanted:
            self._highs[tp] = self._broker.watermarks({tp})[tp].high
        return self._highs[tp]
