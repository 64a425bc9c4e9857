"""How many messages an epoch takes: as many as `epoch.max_messages`, fewer where they are large (`epoch.max_bytes`).

Spark's Kafka source counts messages only, and is told how many when the query starts. So their size is looked at then,
and the query is started anew when it has become another one by far. Until then an epoch, and the one planned behind it,
may be larger.
"""

from contextlib import suppress

from app.config.settings import EpochSettings
from app.errors import SurelaneError
from app.kafka.broker import Broker
from app.model.offsets import Offsets, Position, Span

#: messages that are looked at, of each partition
_SAMPLE = 50
#: an epoch with so many times the bytes asked for is too large
_TOO_LARGE = 2.0
#: with so small a part of them, and of the messages, it is too small
_TOO_SMALL = 0.4


class EpochSize:
    """Of one lane's query. Bytes are those of the decoded rows; before there are any, those of the messages."""

    def __init__(self, epoch: EpochSettings) -> None:
        self._most, self.bytes = epoch.max_messages, epoch.max_bytes
        #: most messages of an epoch
        self.messages = epoch.max_messages
        #: what they should be by now
        self._wanted = self.messages

    @property
    def is_off(self) -> bool:
        """Whether a query should be started with another size."""
        return self._wanted != self.messages

    def bound(self, messages: int) -> None:
        """No epoch has more messages from now on: more do not fit into memory."""
        self._most = min(self._most, max(1, messages))
        self._wanted = min(self._wanted, self._most)

    def begin(self) -> int:
        """The size for a query that starts now."""
        self.messages = self._wanted
        return self.messages

    def sample(self, broker: Broker, position: Offsets) -> None:
        """Look at messages from the position on; at the last ones where nothing lies behind it. Whatever is wrong with
        them is for those to say who need them."""
        with suppress(SurelaneError):
            self._sample(broker, position)

    def _sample(self, broker: Broker, position: Offsets) -> None:
        marks = broker.watermarks(set(position))
        sizes: list[int] = []
        for tp, (low, high) in marks.items():
            first = max(low, min(position[tp], high - _SAMPLE))
            if first < high:
                found = broker.messages(Position(*tp, first), min(_SAMPLE, high - first))
                sizes += [len(one.value or b"") for one in found]
        if sizes:
            self._wanted = self._fitting(sum(sizes) / len(sizes))

    def learn(self, span: Span, size: int) -> None:
        """An epoch was read, with so many bytes."""
        messages = sum(end - span.start[tp] for tp, end in span.end.items())
        wanted = self._fitting(size / messages) if messages else self._wanted
        is_too_large = size > _TOO_LARGE * self.bytes and wanted < self.messages
        is_too_small = messages >= self.messages and self.messages < _TOO_SMALL * wanted
        if is_too_large or is_too_small:
            self._wanted = wanted

    def _fitting(self, each: float) -> int:
        return max(1, min(self._most, int(self.bytes / max(each, 1.0))))
