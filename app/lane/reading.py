"""Reading an epoch under guard: whole while nothing is suspected, else in parts, so that less is suspected later."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from app.apply.arrange import Epoch
from app.errors import SurelaneError, Verdict
from app.guard.attempts import Stage, Suspect
from app.guard.guard import Failure, Guard
from app.guard.narrowing import cut, only_position, single, span_of, split
from app.kafka.broker import RawMessage
from app.lane.skipped import Skipped
from app.model.arrow import Indices
from app.model.last import LastMessages
from app.model.offsets import Offsets, Position, Span
from app.model.rows import NO_ROWS, Kind

MALFORMED = Failure("it is not a Debezium change event in JSON", "Malformed")
_BAD = (Kind.MALFORMED, Kind.FAILED)


class Source(Protocol):
    """Where the rows of one epoch come from."""

    def all(self) -> pa.Table:
        """Every row (`app.model.rows`); raises a SurelaneError, of verdict POISON where a message may be the cause."""
        ...

    def part(self, span: Span) -> pa.Table:
        """The rows of a part of the epoch."""
        ...

    def arranged(self, rows: pa.Table) -> Epoch:
        """What `all` gave, in the lane's order; it may have been arranged ahead."""
        ...

    def message(self, position: Position) -> RawMessage | None:
        """One message as it lies in Kafka; None where there is none (offsets have gaps)."""
        ...

    def messages(self, positions: Sequence[Position]) -> list[RawMessage]:
        """Several messages that were read before, in their order."""
        ...

    def identified(self, span: Span) -> LastMessages:
        """What identifies the last message of each partition in the span, as far as it can be found; raises
        TopicChanged, or Unreachable, when the topics are not known to be the pinned ones."""
        ...


@dataclass
class Reader:
    """Reads one epoch; what cannot be read ends up in `skipped`."""

    guard: Guard
    source: Source
    number: int
    skipped: list[Skipped] = field(default_factory=list)
    _tables: list[pa.Table] = field(default_factory=list)
    #: whether the epoch is read in parts
    _cut: bool = False

    def read(self, span: Span) -> pa.Table:
        """The rows of the span's messages, without those that cannot be read."""
        self.guard.enter(span)
        parts = cut(span, self.guard.spans(Stage.DECODE))
        if parts == [span] and (only_position(span) is None or self.guard.suspect(span, Stage.DECODE) is None):
            self._whole(span)
        else:
            self._parts(parts)
        return self._tables[0] if len(self._tables) == 1 else pa.concat_tables(self._tables or [NO_ROWS])

    def all_before(self, end: Offsets) -> bool:
        """Leave what is skipped behind `end` to a later epoch; whether there was none of it."""
        before = [one for one in self.skipped if one.message.position.offset < end[one.message.position.tp]]
        left, self.skipped = len(self.skipped) - len(before), before
        return not left

    def sound(self, rows: pa.Table) -> Epoch:
        """What was read, in the lane's order and without those messages that are condemned or malformed."""
        return self._without_bad(self.source.arranged(rows))

    def _whole(self, span: Span) -> None:
        self.guard.begin(self.number, span, Stage.EPOCH)
        if not self._succeeds(self.source.all):
            self._parts(split(span))

    def _parts(self, parts: list[Span]) -> None:
        self._cut = True
        for part in parts:
            position = only_position(part)
            if position is not None:
                self._one(position, part)
                continue
            self.guard.begin(self.number, part, Stage.DECODE)
            if not self._succeeds(lambda part=part: self.source.part(part)):
                self._parts(split(part))

    def _one(self, position: Position, span: Span) -> None:
        """A single message: tried until it passes or is condemned."""
        suspect = self.guard.suspect(span, Stage.DECODE)
        while suspect is None or not self.guard.condemns(suspect):
            self.guard.begin(self.number, span, Stage.DECODE)
            error = self._failure(lambda: self.source.part(span))
            if error is None:
                return
            suspect = self.guard.failed(span, Stage.DECODE, Failure.of(error))
        if (message := self.source.message(position)) is not None:
            self.skipped.append(Skipped(message=message, suspect=suspect))

    def _succeeds(self, read: Callable[[], pa.Table]) -> bool:
        return self._failure(read) is None

    def _failure(self, read: Callable[[], pa.Table]) -> SurelaneError | None:
        """Keep what is read; the error, if one of the messages may be the cause."""
        try:
            self._tables.append(read())
        except SurelaneError as error:
            if error.verdict is not Verdict.POISON:
                raise
            return error
        return None

    def _without_bad(self, epoch: Epoch) -> Epoch:
        """Messages that are malformed, or that the transform raised for, are read again until they are well or
        condemned."""
        bad = epoch.of_kind(*_BAD)
        while len(bad):
            condemned: list[int] = []
            for ordinal in bad.tolist():
                suspect = self._bad(epoch, ordinal)
                if self.guard.condemns(suspect):
                    condemned.append(ordinal)
                    message = self.source.message(epoch.position(ordinal))
                    self.skipped.append(Skipped.of_row(epoch, ordinal, suspect, message))
            epoch = self._read_again(epoch, bad, condemned)
            bad = epoch.of_kind(*_BAD)
        return epoch

    def _bad(self, epoch: Epoch, ordinal: int) -> Suspect:
        position, failed = epoch.position(ordinal), epoch.layout(ordinal).kind is Kind.FAILED
        stage = Stage.TRANSFORM if failed else Stage.MESSAGE
        known = self.guard.suspect(single(position), stage)
        if known is not None and self.guard.condemns(known):
            return known
        said = epoch.rows["line"][ordinal].as_py() if failed else ""
        failure = Failure(f"the transform raised {said}", said.partition(":")[0]) if failed else MALFORMED
        return self.guard.failed(single(position), stage, failure)

    def _read_again(self, epoch: Epoch, bad: Indices, condemned: list[int]) -> Epoch:
        """The epoch with its bad rows read once more, the condemned ones left out.

        All at once, unless the epoch had to be cut: what lies between them may be deadly then.
        """
        doubtful = sorted(set(bad.tolist()) - set(condemned))
        rest = epoch.without(bad)
        if not doubtful:
            return rest
        rows = epoch.rows.take(pa.array(doubtful))
        positions = [epoch.position(ordinal) for ordinal in doubtful]
        spans = [single(position) for position in positions] if self._cut else [span_of(rows)]
        again = [table for span in spans if (table := self._once_more(span)) is not None]
        found = pa.concat_tables(again) if len(again) == len(spans) else rows
        places = zip(*(found[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True)
        found = found.filter(pa.array([Position(*place) in positions for place in places], pa.bool_()))
        return Epoch.arrange(pa.concat_tables([rest.rows, found]))

    def _once_more(self, span: Span) -> pa.Table | None:
        """Its rows; None when they cannot even be read now."""
        self.guard.cover(self.number, span, Stage.DECODE)
        try:
            return self.source.part(span)
        except SurelaneError as error:
            if error.verdict is not Verdict.POISON:
                raise
            return None
