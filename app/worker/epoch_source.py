"""The messages of one epoch: all of them as the streaming query planned them, or a part of them by its offsets."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from app.model.last import LastMessages
from app.model.message import RawMessage
from app.model.offsets import Position, Span

#: offsets that are read over without being wanted
READ_ON = 100


class Singles(Protocol):
    """What gives single messages as they are."""

    def message(self, position: Position) -> RawMessage | None:
        """The message at `position`; None where there is none (offsets have gaps)."""
        ...

    def messages(self, start: Position, limit: int) -> list[RawMessage]:
        """Up to `limit` messages from `start` on; fewer where the partition ends."""
        ...


@dataclass(frozen=True)
class EpochSource:
    """See `app.lane.guarded_read.Source`."""

    planned: Callable[[], pa.Table]
    read: Callable[[Span], pa.Table]
    singles: Singles
    identify: Callable[[Span], LastMessages] = lambda _: {}

    def all(self) -> pa.Table:
        """Every row of the epoch."""
        return self.planned()

    def part(self, span: Span) -> pa.Table:
        """The rows of a part of it."""
        return self.read(span)

    def message(self, position: Position) -> RawMessage | None:
        """One message as it lies in Kafka."""
        return self.singles.message(position)

    def messages(self, positions: Sequence[Position]) -> list[RawMessage | None]:
        """Several of them, neighbours with one request; None for one that was compacted away since it was read."""
        found: dict[Position, RawMessage] = {}
        for first, last in runs(positions):
            for message in self.singles.messages(first, last.offset - first.offset + 1):
                found[message.position] = message
        return [found.get(position) for position in positions]

    def identified(self, span: Span) -> LastMessages:
        """See `app.worker.log_identity`; a replay, which compares nothing, has none."""
        return self.identify(span)


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
