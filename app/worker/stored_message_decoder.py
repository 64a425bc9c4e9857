"""Decodes stored messages of quarantine and archive again, without Kafka."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from app.decode.schema import Fields, fields_of
from app.errors import Unreachable
from app.model.message import RawMessage
from app.model.offsets import Position
from app.model.row_layout import Layout


class StoredMessages:
    """Decodes stored messages as the lane decodes those of Kafka; remembers the last ones for their schemas."""

    def __init__(
        self,
        rows: Callable[[Sequence[RawMessage]], pa.Table],
        read: Callable[[Position, int], list[RawMessage]],
    ) -> None:
        """`rows`: decodes messages (`app.model.rows`); `read`: up to so many messages that are not stored here, from a
        position on."""
        self._rows, self._read = rows, read
        self._last: dict[Position, RawMessage] = {}
        self._epoch: dict[Position, RawMessage] = {}

    def decode(self, messages: Sequence[RawMessage]) -> pa.Table:
        """See `app.quarantine.releases.Decode`."""
        self._last = {one.position: one for one in messages}
        return self._rows(messages)

    def remember(self, messages: Sequence[RawMessage]) -> None:
        """Remember messages of an epoch that Kafka may have deleted, until `forget`."""
        self._epoch |= {one.position: one for one in messages}

    def epoch(self, messages: Sequence[RawMessage]) -> pa.Table:
        """Rows of an epoch's messages, or of a part; remembers the messages."""
        self.remember(messages)
        return self._rows(messages)

    def forget(self) -> None:
        """Forget the epoch's messages, once it is applied."""
        self._epoch = {}

    def schema(self, position: Position, layout: Layout) -> Fields:
        """Connect schema of the columns of the message at `position`, remembered or read from Kafka.

        Raises Unreachable for a message that compaction has removed since it was read: the retry reads without it.
        """
        known = self._last.get(position) or self._epoch.get(position)
        found = [known] if known else self._read(position, 1)
        message = next((one for one in found if one.position == position), None)
        if message is None:
            raise Unreachable(
                f"{position}: log compaction removed it after it was read", hint="nothing: it is read again"
            )
        return fields_of(message.key, message.value, layout)
