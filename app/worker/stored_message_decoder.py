"""Messages that the quarantine has kept, decoded once more: Kafka need not have them any longer."""

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from app.decode.schema import Fields, fields_of
from app.errors import Unreachable
from app.model.message import RawMessage
from app.model.offsets import Position
from app.model.rows import Layout


class Decoder(Protocol):
    """What decodes them."""

    def stored(self, messages: Sequence[RawMessage]) -> pa.Table:
        """Their rows (`app.model.rows`)."""
        ...


class Keeper(Protocol):
    """What may have a message that was not stored."""

    def messages(self, start: Position, limit: int) -> list[RawMessage]:
        """Up to `limit` messages from `start` on."""
        ...


class StoredMessages:
    """Decodes stored messages as the lane decodes those that Kafka has; remembers the last ones."""

    def __init__(self, decoder: Decoder, keeper: Keeper) -> None:
        self._decoder, self._keeper = decoder, keeper
        self._last: dict[Position, RawMessage] = {}
        self._epoch: dict[Position, RawMessage] = {}

    def decode(self, messages: Sequence[RawMessage]) -> pa.Table:
        """See `app.quarantine.releases.Decode`."""
        self._last = {one.position: one for one in messages}
        return self._decoder.stored(messages)

    def remember(self, messages: Sequence[RawMessage]) -> None:
        """Of an epoch that Kafka may not have any more."""
        self._epoch |= {one.position: one for one in messages}

    def epoch(self, messages: Sequence[RawMessage]) -> pa.Table:
        """Rows of an epoch's messages, or of a part of it, which are remembered."""
        self.remember(messages)
        return self._decoder.stored(messages)

    def forget(self) -> None:
        """The epoch is through."""
        self._epoch = {}

    def schema(self, position: Position, layout: Layout) -> Fields:
        """Connect schema of the columns of the message there, be it one of the last or one that Kafka has.

        Raises Unreachable for one that was compacted away since it was read: read again, the epoch is without it.
        """
        known = self._last.get(position) or self._epoch.get(position)
        found = [known] if known else self._keeper.messages(position, 1)
        message = next((one for one in found if one.position == position), None)
        if message is None:
            raise Unreachable(
                f"{position}: log compaction removed it after it was read", hint="nothing: it is read again"
            )
        return fields_of(message.key, message.value, layout)
