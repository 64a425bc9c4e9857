"""Forecasts the spans of the next epochs: the epochs of a backlog of one partition have equal sizes."""

from app.config.settings import Align, Settings
from app.kafka.broker import Broker
from app.model.offsets import Offsets, Span, TopicPartition
from app.source.size import EpochSize


class EpochForecast:
    """Forecasts for lanes over one partition each; none for other lanes. One thread for each partition uses it."""

    def __init__(self, broker: Broker, size: EpochSize, settings: Settings, tasks: int) -> None:
        """`tasks`: number of tasks that stage concurrently."""
        self._broker, self._size = broker, size
        #: spans to forecast; with alignment an epoch's end determines the start of the next epoch only
        self._most = 1 if settings.epoch.align is Align.SOURCE_TRANSACTION else tasks + 1
        #: end offset of each partition at its last request
        self._highs: dict[TopicPartition, int] = {}

    def first(self, start: Offsets, read: Offsets) -> list[Span]:
        """The first span of a query that reads from `read` on, for a lane at position `start`."""
        if len(start) != 1:
            return []
        ((tp, offset),) = read.items()
        end = min(offset + self._size.messages, self._known(tp, offset + self._size.messages))
        return [Span(start=start, end=Offsets.of({tp: end}))] if end > offset else []

    def after(self, planned: Span, end: Offsets) -> list[Span]:
        """The spans after the epoch of `planned`, which ends at `end`."""
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
