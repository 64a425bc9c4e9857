"""The messages of one epoch: all that the streaming query planned, or a part by offsets."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from app.model.last import LastMessages
from app.model.message import RawMessage
from app.model.offsets import Position, Span

#: largest gap between wanted offsets that one request reads across
READ_ON = 100


@dataclass(frozen=True)
class EpochSource:
    """See `app.poison.epoch_rows.EpochRows`."""

    planned: Callable[[], pa.Table]
    read: Callable[[Span], pa.Table]
    #: start, limit -> up to so many messages from there on, not decoded; fewer where the partition ends
    fetch: Callable[[Position, int], Sequence[RawMessage]]
    identify: Callable[[Span], LastMessages] = lambda _: {}

    def all(self) -> pa.Table:
        return self.planned()

    def part(self, span: Span) -> pa.Table:
        return self.read(span)

    def message(self, position: Position) -> RawMessage | None:
        return next((one for one in self.fetch(position, 1) if one.position == position), None)

    def messages(self, positions: Sequence[Position]) -> list[RawMessage | None]:
        """Neighbours are read with one request; None for a message that compaction has removed since it was read."""
        found: dict[Position, RawMessage] = {}
        for first, last in runs(positions):
            for message in self.fetch(first, last.offset - first.offset + 1):
                found[message.position] = message
        return [found.get(position) for position in positions]

    def identified(self, span: Span) -> LastMessages:
        """See `app.worker.log_identity`; empty for a replay, which compares nothing."""
        return self.identify(span)


def runs(positions: Iterable[Position]) -> list[tuple[Position, Position]]:
    """First and last position of each run that one request reads; gaps in a run are at most READ_ON offsets."""
    found: list[tuple[Position, Position]] = []
    for position in sorted(positions):
        first, last = found[-1] if found else (position, position)
        if found and last[:2] == position[:2] and position.offset - last.offset <= READ_ON:
            found[-1] = (first, position)
        else:
            found.append((position, position))
    return found
