"""What a restored target still needs and Kafka no longer has, applied from the archive before the query starts.

Each step is an epoch of the lane like any other, made of epochs as they were archived: under guard, one COMMIT of data
and ledger row in every mode (there is no checkpoint entry that could decide it, and no need for one: the ledger alone
says where to go on, whenever this dies). Archived again nothing is: the archive has it. Afterwards the lanes are opened
once more, so that a new checkpoint begins where this ended.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import structlog

from app.archive.reader import ArchiveReader, reached
from app.lane.lane import Lane
from app.model.last import LastMessages
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.stage.lane_stage import StagedSpan
from app.worker.stored_message_decoder import StoredMessages

log = structlog.get_logger()


@dataclass(frozen=True)
class ArchivedSource:
    """The messages of one epoch. See `app.lane.guarded_read.Source`."""

    #: in any order
    found: Sequence[RawMessage]
    decode: Callable[[Sequence[RawMessage]], pa.Table]

    def all(self) -> pa.Table:
        """Every row."""
        return self.decode(self.found)

    def part(self, span: Span) -> pa.Table:
        """The rows of a part."""
        return self.decode([one for one in self.found if span.has(one.position)])

    def message(self, position: Position) -> RawMessage | None:
        """One of them."""
        return next((one for one in self.found if one.position == position), None)

    def messages(self, positions: Sequence[Position]) -> list[RawMessage | None]:
        """Several of them."""
        wanted = set(positions)
        found = {one.position: one for one in self.found if one.position in wanted}
        return [found.get(position) for position in positions]

    def identified(self, span: Span) -> LastMessages:
        """Of archived messages, whose leader epoch is not known."""
        last: dict[TopicPartition, RawMessage] = {}
        for one in sorted(self.found, key=lambda one: one.position):
            if span.has(one.position):
                last[one.position.tp] = one
        return {tp: one.last for tp, one in last.items()}


class Filling:
    """Of one lane, whose epochs one COMMIT decides."""

    def __init__(
        self,
        lane: Lane,
        reader: ArchiveReader,
        stored: StoredMessages,
        most: int,
        go_on: Callable[[], None],
    ) -> None:
        """`most`: messages of an epoch, about; `go_on` is called before each and may raise."""
        self._lane, self._reader, self._stored, self._most, self._go_on = lane, reader, stored, most, go_on

    def run(self, goal: Mapping[TopicPartition, int]) -> None:
        """Apply until the lane's position is at `goal` or past it. Raises Diverged where the archive ends first."""
        lane, held = self._lane, list[RawMessage]()
        log.info("filling from the archive", lane=lane.name, position=lane.position.nested(), until=_text(goal))
        for number, (end, found) in enumerate(self._steps(goal)):
            self._go_on()
            # what waits for the rest of its transaction comes once more
            held = [one for one in held if one.position.offset >= lane.position[one.position.tp]] + found
            span = Span(start=lane.position, end=end)
            lane.process_epoch(number, span, ArchivedSource(held, self._stored.epoch), partial(self._staged, held))
            if reached(lane.position, goal):
                return

    def _staged(self, messages: Sequence[RawMessage], span: Span) -> StagedSpan | None:
        """By tasks, which get the messages from here: they need not see the archive."""
        self._stored.remember(messages)
        return None if self._lane.stage is None else self._lane.stage.take(span, messages)

    def _steps(self, goal: Mapping[TopicPartition, int]) -> Iterator[tuple[Offsets, list[RawMessage]]]:
        """Archived epochs, several at once where they are small."""
        gathered: list[RawMessage] = []
        for end, found in self._reader.epochs(self._lane.position):
            gathered += found
            if len(gathered) >= self._most or reached(end, goal):
                yield end, gathered
                gathered = []


def _text(goal: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{tp}@{offset}" for tp, offset in goal.items())
