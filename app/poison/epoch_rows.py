"""The rows of one epoch, whole and in parts, for whoever narrows it down to one message."""

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from app.model.last import LastMessages
from app.model.message import RawMessage
from app.model.offsets import Position, Span
from app.poison.guard import Failure

#: why a message that cannot be decoded is condemned
MALFORMED = Failure("it is not a Debezium change event in JSON", "Malformed")


class EpochRows(Protocol):
    """Where the rows of one epoch come from."""

    def all(self) -> pa.Table:
        """Every row (`app.model.rows`); raises a SurelaneError, of verdict POISON where a message may be the cause."""
        ...

    def part(self, span: Span) -> pa.Table:
        """The rows of a part of the epoch."""
        ...

    def message(self, position: Position) -> RawMessage | None:
        """One message as it lies in Kafka; None where there is none (offsets have gaps)."""
        ...

    def messages(self, positions: Sequence[Position]) -> list[RawMessage | None]:
        """Several messages that were read before, in their order; None for one that was compacted away since."""
        ...

    def identified(self, span: Span) -> LastMessages:
        """What identifies the last message of each partition in the span, as far as it can be found; raises
        TopicChanged, or Unreachable, when the topics are not known to be the pinned ones."""
        ...
