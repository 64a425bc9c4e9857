"""Which spans the next epochs are likely to have: those of a backlog of one partition are cut alike."""

from app.config.settings import Align, Settings
from app.kafka.broker import Broker
from app.model.offsets import Offsets, Span, TopicPartition
from app.source.size import EpochSize


class EpochForecast:
    """Of lanes over one partition each; of any other nothing is foreseen. Used by one thread a partition."""

    def __init__(self, broker: Broker, size: EpochSize, settings: Settings, tasks: int) -> None:
        """`tasks`: how many stage at the same time."""
        self._broker, self._size = broker, size
        #: an epoch that ends where a source transaction does says where the next one begins, and of no other
        self._most = 1 if settings.epoch.align is Align.SOURCE_TRANSACTION else tasks + 1
        #: behind the last message of each partition, when it was looked at
        self._highs: dict[TopicPartition, int] = {}

    def first(self, start: Offsets, read: Offsets) -> list[Span]:
        """The first epoch of a query that begins at `read`, while the lane is at `start`."""
        if len(start) != 1:
            return []
        ((tp, offset),) = read.items()
        end = min(offset + self._size.messages, self._known(tp, offset + self._size.messages))
        return [Span(start=start, end=Offsets.of({tp: end}))] if end > offset else []

    def after(self, planned: Span, end: Offsets) -> list[Span]:
        """Those after an epoch that was planned like this and ends at `end`."""
        if len(planned.end) != 1:
            return []
        ((tp, last),) = planned.end.items()
        step = self._size.messages
        if last - planned.start[tp] < step:
            return []
        known = min(last + step * self._most, self._known(tp, last + step * self._most))
        ends = range(last + step, known + 1, step)
        starts = [end[tp], *ends[:-1]]
        return [Span.of(tp, start, until) for start, until in zip(starts, ends, strict=False)]

    def _known(self, tp: TopicPartition, wanted: int) -> int:
        if self._highs.get(tp, 0) < wanted:
            self._highs[tp] = self._broker.watermarks({tp})[tp].high
        return self._highs[tp]
