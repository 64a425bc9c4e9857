"""How many messages an epoch takes: as many as `epoch.max_messages`, fewer where they are large (`epoch.max_bytes`).

Spark's Kafka source limits the number of messages only, and gets the limit when the query starts. So messages are
sampled then, and the query is started anew when their size changes by much. Until then an epoch, and the one planned
behind it, may be larger.
"""

from contextlib import suppress

from app.config.settings import EpochSettings
from app.errors import SurelaneError
from app.kafka.broker import Broker
from app.model.offsets import Offsets, Position, Span

#: messages that are sampled, of each partition
_SAMPLE = 50
#: an epoch of more than so many times the wanted bytes is too large
_TOO_LARGE = 2.0
#: a full epoch of less than this share of the messages that fit is too small
_TOO_SMALL = 0.4


class EpochSize:
    """The epoch size of one lane's query. Bytes are those of decoded rows; in a sample, those of messages' values."""

    def __init__(self, epoch: EpochSettings) -> None:
        self._most, self.bytes = epoch.max_messages, epoch.max_bytes
        #: most messages of an epoch, in the query that runs
        self.messages = epoch.max_messages
        #: the same, for the next query
        self._wanted = self.messages

    @property
    def is_off(self) -> bool:
        """Whether the query should be started anew, with another size."""
        return self._wanted != self.messages

    def bound(self, messages: int) -> None:
        """Limit the next queries to so many messages an epoch: more do not fit into memory."""
        self._most = min(self._most, max(1, messages))
        self._wanted = min(self._wanted, self._most)

    def begin(self) -> int:
        """The size for a query that starts now."""
        self.messages = self._wanted
        return self.messages

    def sample(self, broker: Broker, position: Offsets) -> None:
        """Sample messages from the position on, the last ones where few follow. Errors are left to those who read the
        messages to apply them."""
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
            self._wanted = self.fitting(sum(sizes) / len(sizes))

    def learn(self, span: Span, size: int) -> None:
        """Learn from an epoch that was read, with `size` bytes."""
        messages = span.size
        wanted = self.fitting(size / messages) if messages else self._wanted
        is_too_large = size > _TOO_LARGE * self.bytes and wanted < self.messages
        is_too_small = messages >= self.messages and self.messages < _TOO_SMALL * wanted
        if is_too_large or is_too_small:
            self._wanted = wanted

    def fitting(self, each: float) -> int:
        """Messages of `each` bytes that an epoch takes."""
        return max(1, min(self._most, int(self.bytes / max(each, 1.0))))
