"""Filling: before the query starts, apply from the archive what a restored target lacks and Kafka has deleted.

Each step is an epoch of the lane, made of archived epochs, under guard. In every mode one COMMIT ends it with data and
ledger row: no checkpoint entry decides it, and after a crash the lane continues from the ledger alone. Nothing is
archived again. Afterwards the lanes are opened once more, so that a new checkpoint begins at the end of the filling.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import structlog

from app.archive.reader import ArchiveReader, reached
from app.dispatch.lane_stage import StagedSpan
from app.lane.lane import Lane
from app.model.last import LastMessages
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.worker.stored_message_decoder import StoredMessages

log = structlog.get_logger()


@dataclass(frozen=True)
class ArchivedSource:
    """The archived messages of one epoch. See `app.poison.epoch_rows.EpochRows`."""

    #: in any order
    found: Sequence[RawMessage]
    decode: Callable[[Sequence[RawMessage]], pa.Table]

    def all(self) -> pa.Table:
        return self.decode(self.found)

    def part(self, span: Span) -> pa.Table:
        return self.decode([one for one in self.found if span.has(one.position)])

    def message(self, position: Position) -> RawMessage | None:
        return next((one for one in self.found if one.position == position), None)

    def messages(self, positions: Sequence[Position]) -> list[RawMessage | None]:
        wanted = set(positions)
        found = {one.position: one for one in self.found if one.position in wanted}
        return [found.get(position) for position in positions]

    def identified(self, span: Span) -> LastMessages:
        """The last message of each partition; archived messages have no leader epoch."""
        last: dict[TopicPartition, RawMessage] = {}
        for one in sorted(self.found, key=lambda one: one.position):
            if span.has(one.position):
                last[one.position.tp] = one
        return {tp: one.last for tp, one in last.items()}


class Filling:
    """The filling of one lane, whose epochs end with one COMMIT."""

    def __init__(
        self,
        lane: Lane,
        reader: ArchiveReader,
        stored: StoredMessages,
        most: int,
        go_on: Callable[[], None],
    ) -> None:
        """`most`: messages of an epoch, approximately; `go_on` is called before each epoch and may raise."""
        self._lane, self._reader, self._stored, self._most, self._go_on = lane, reader, stored, most, go_on

    def run(self, goal: Mapping[TopicPartition, int]) -> None:
        """Apply until the lane's position reaches `goal`. Raises Diverged where the archive ends before."""
        lane, held = self._lane, list[RawMessage]()
        log.info("filling from the archive", lane=lane.name, position=lane.position.nested(), until=_text(goal))
        for number, (end, found) in enumerate(self._steps(goal)):
            self._go_on()
            # messages that wait for the rest of their transaction are applied with the next epoch
            held = [one for one in held if one.position.offset >= lane.position[one.position.tp]] + found
            span = Span(start=lane.position, end=end)
            lane.process_epoch(number, span, ArchivedSource(held, self._stored.epoch), partial(self._staged, held))
            if reached(lane.position, goal):
                return

    def _staged(self, messages: Sequence[RawMessage], span: Span) -> StagedSpan | None:
        """Stage the span in tasks, which get the messages from here and need no access to the archive."""
        self._stored.remember(messages)
        return None if self._lane.stage is None else self._lane.stage.take(span, messages)

    def _steps(self, goal: Mapping[TopicPartition, int]) -> Iterator[tuple[Offsets, list[RawMessage]]]:
        """Archived epochs, small ones combined up to `most` messages: end and messages of each step."""
        gathered: list[RawMessage] = []
        for end, found in self._reader.epochs(self._lane.position):
            gathered += found
            if len(gathered) >= self._most or reached(end, goal):
                yield end, gathered
                gathered = []


def _text(goal: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{tp}@{offset}" for tp, offset in goal.items())
