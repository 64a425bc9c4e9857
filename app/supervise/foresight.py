"""Which spans the next epochs are likely to have: those of a backlog of one partition are cut alike."""

from app.config.settings import Align, Settings
from app.kafka.broker import Broker
from app.model.offsets import Offsets, Span, TopicPartition
from app.source.size import EpochSize


class Foresight:
    """Of one lane over one partition; of any other nothing is foreseen. Used by one thread."""

    def __init__(self, broker: Broker, size: EpochSize, settings: Settings, tasks: int) -> None:
        """`tasks`: how many stage at the same time."""
        self._broker, self._size, self._ahead_bytes = broker, size, settings.stage.ahead_bytes
        #: an epoch that ends where a source transaction does says where the next one begins, and of no other
        self._most = 1 if settings.epoch.align is Align.SOURCE_TRANSACTION else tasks + 1
        #: behind the last message that was there when it was looked at
        self._high = 0

    def first(self, start: Offsets, read: Offsets) -> list[Span]:
        """The first epoch of a query that begins at `read`, while the lane is at `start`."""
        if len(start) != 1:
            return []
        ((tp, offset),) = read.items()
        end = min(offset + self._size.messages, self._known(tp, offset + self._size.messages))
        return [Span(start=start, end=Offsets.of({tp: end}))] if end > offset else []

    def after(self, planned: Span, end: Offsets, size: int) -> list[Span]:
        """Those after an epoch that was planned like this and ends at `end`, whose rows take `size` bytes: as many as
        may be staged ahead."""
        if len(planned.end) != 1:
            return []
        ((tp, last),) = planned.end.items()
        step = self._size.messages
        if last - planned.start[tp] < step:
            return []
        most = min(self._most, self._ahead_bytes // max(size, 1))
        known = min(last + step * most, self._known(tp, last + step * most))
        ends = range(last + step, known + 1, step)
        starts = [end[tp], *ends[:-1]]
        return [Span.of(tp, start, until) for start, until in zip(starts, ends, strict=False)]

    def _known(self, tp: TopicPartition, wanted: int) -> int:
        if self._high < wanted:
            self._high = self._broker.watermarks({tp})[tp].high
        return self._high
