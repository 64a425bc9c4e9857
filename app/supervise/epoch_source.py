"""The messages of one epoch: all of them as the streaming query planned them, or a part of them by its offsets."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from app.kafka.broker import Broker, RawMessage
from app.model.offsets import Position, Span

#: offsets that are read over without being wanted
READ_ON = 100


@dataclass(frozen=True)
class EpochSource:
    """See `app.lane.reading.Source`."""

    planned: Callable[[], pa.Table]
    read: Callable[[Span], pa.Table]
    broker: Broker

    def all(self) -> pa.Table:
        """Every row of the epoch."""
        return self.planned()

    def part(self, span: Span) -> pa.Table:
        """The rows of a part of it."""
        return self.read(span)

    def message(self, position: Position) -> RawMessage | None:
        """One message as it lies in Kafka."""
        return self.broker.message(position)

    def messages(self, positions: Sequence[Position]) -> list[RawMessage]:
        """Several of them, neighbours with one request."""
        found: dict[Position, RawMessage] = {}
        for first, last in runs(positions):
            for message in self.broker.messages(first, last.offset - first.offset + 1):
                found[message.position] = message
        return [found[position] for position in positions]


def runs(positions: Iterable[Position]) -> list[tuple[Position, Position]]:
    """First and last of each row of positions between which it is cheaper to read on than to ask anew."""
    found: list[tuple[Position, Position]] = []
    for position in sorted(positions):
        first, last = found[-1] if found else (position, position)
        if found and last[:2] == position[:2] and position.offset - last.offset <= READ_ON:
            found[-1] = (first, position)
        else:
            found.append((position, position))
    return found
