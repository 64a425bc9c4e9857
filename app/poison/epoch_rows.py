"""The rows of one epoch, whole and in parts: what narrowing reads until one message is left."""

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from app.model.last import LastMessages
from app.model.message import RawMessage
from app.model.offsets import Position, Span
from app.poison.guard import Failure

#: the failure of a message that cannot be decoded
MALFORMED = Failure("it is not a Debezium change event in JSON", "Malformed")


class EpochRows(Protocol):
    """A source of the rows of one epoch."""

    def all(self) -> pa.Table:
        """Every row (`app.model.rows`). Raises a SurelaneError, with verdict POISON if a message may be the cause."""
        ...

    def part(self, span: Span) -> pa.Table: ...

    def message(self, position: Position) -> RawMessage | None:
        """One message as Kafka has it; None where there is none (offsets have gaps)."""
        ...

    def messages(self, positions: Sequence[Position]) -> list[RawMessage | None]:
        """Messages that were read before, in the given order; None for one that log compaction has removed since."""
        ...

    def identified(self, span: Span) -> LastMessages:
        """What identifies the last message of each partition in the span, where it can be found. Raises TopicChanged or
        Unreachable when the topics are not known to be the pinned ones."""
        ...
