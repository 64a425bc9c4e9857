"""Reads an epoch under guard: whole while nothing is suspected, else in parts, so that less is suspected later.

A part is decoded, and all that is computed of an epoch before it is written is computed of the part alone: a failure in
that is narrowed to one message here. When all parts have passed, the guard's record covers the epoch as a whole again
(`AttemptStage.ASSEMBLE`): what fails then is no single message's fault.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import structlog

from app.dispatch.lost import TaskDied
from app.epoch.epoch_batch import EpochBatch
from app.errors import JobFailed, MessagesGone, OutOfMemory, SurelaneError, Unattributed, Unreachable, Verdict
from app.model.activity import Activity
from app.model.arrow import Indices
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span
from app.model.row_layout import RowKind
from app.model.rows import NO_ROWS
from app.poison.attempts import AttemptStage, Suspect
from app.poison.death_evidence import DeathEvidence, evidence_of
from app.poison.epoch_rows import MALFORMED, EpochRows
from app.poison.guard import Failure, Guard
from app.poison.narrowing import cut, only_position, single, split
from app.poison.row_parts import span_of
from app.poison.try_until_condemned import try_until_condemned
from app.quarantine.skipped_message import SkippedMessage

log = structlog.get_logger()

_BAD = (RowKind.MALFORMED, RowKind.FAILED)
#: bytes that must be free before a single message is believed not to fit into memory
BALLAST_BYTES = 64 << 20
#: tries to read a span by tasks that die: for an unknown reason; for a reason that has nothing to do with the span
_TRIES, _PATIENT_TRIES = 1, 20
#: where in an epoch another message is taken from for a control, as a share of its offsets
_ELSEWHERE = (0.5, 0.75, 1.0, 0.25)

#: decodes a message in a separate process; returns what ended that process, None where it survived
Trial = Callable[[RawMessage], str | None]


@dataclass
class GuardedRead:
    """Reads one epoch; what cannot be read ends up in `skipped`."""

    guard: Guard
    source: EpochRows
    number: int
    #: of this lane, for error messages
    lane: str = ""
    #: returns an earlier message that is known to be good, as other work to compare with; None where there is none
    neighbour: Callable[[Position], Position | None] = lambda _: None
    #: None: messages cannot be tried in a separate process
    trial: Trial | None = None
    skipped: list[SkippedMessage] = field(default_factory=list)
    _tables: list[pa.Table] = field(default_factory=list)
    #: the epoch's span
    _span: Span = field(default_factory=lambda: Span(start=Offsets(), end=Offsets()))
    #: whether the epoch is read in parts
    _cut: bool = False

    def read(self, span: Span) -> pa.Table:
        """The rows of the span's messages, without those that cannot be read."""
        self._span = span
        self.guard.enter(span)
        parts = cut(span, self.guard.spans(AttemptStage.DECODE))
        if parts == [span] and (only_position(span) is None or self.guard.suspect(span, AttemptStage.DECODE) is None):
            self._whole(span)
        else:
            self._all_parts(span, parts)
        return self._rows()

    def read_in_parts(self, span: Span) -> pa.Table:
        """As `read`, after the epoch has failed as a whole."""
        self._span, self._tables, self.skipped = span, [], []
        self._all_parts(span, split(span))
        return self._rows()

    def _rows(self) -> pa.Table:
        return self._tables[0] if len(self._tables) == 1 else pa.concat_tables(self._tables or [NO_ROWS])

    def all_before(self, end: Offsets) -> bool:
        """Leave messages skipped from `end` on to a later epoch; returns whether there were none."""
        before = [one for one in self.skipped if one.message.position.offset < end[one.message.position.tp]]
        left, self.skipped = len(self.skipped) - len(before), before
        return not left

    def sound(self, rows: pa.Table) -> EpochBatch:
        """The rows in the lane's order, without messages that are condemned or malformed."""
        return self._without_bad(EpochBatch.arrange(rows))

    def _whole(self, span: Span) -> None:
        self.guard.begin(self.number, span, AttemptStage.EPOCH)
        error = self._failure(self.source.all, rehearse=False)
        if error is not None:
            self._all_parts(span, split(span))

    def _all_parts(self, span: Span, parts: list[Span]) -> None:
        self._cut = True
        self._parts(parts)
        self.guard.begin(self.number, span, AttemptStage.ASSEMBLE)

    def _parts(self, parts: list[Span]) -> None:
        for part in parts:
            position = only_position(part)
            if position is not None:
                self._one(position, part)
                continue
            self.guard.begin(self.number, part, AttemptStage.DECODE)
            if self._failure(lambda part=part: self.source.part(part)) is not None:
                self._parts(split(part))

    def _one(self, position: Position, span: Span) -> None:

        def attempt(suspect: Suspect | None) -> Suspect | None:
            cause = self._tried_elsewhere(position, suspect)
            error = self._failure(lambda: self.source.part(span)) if cause is None else JobFailed(cause)
            if isinstance(error, TaskDied):
                return self.guard.task_died(span, AttemptStage.DECODE, error.death)
            return None if error is None else self.guard.failed(span, AttemptStage.DECODE, Failure.of(error))

        def control(suspect: Suspect) -> Suspect:
            return self._control(position, suspect)

        condemned = try_until_condemned(self.guard, self.number, span, AttemptStage.DECODE, attempt, control)
        if condemned is not None and (message := self.source.message(position)) is not None:
            self.skipped.append(SkippedMessage(message=message, suspect=condemned))

    def _tried_elsewhere(self, position: Position, suspect: Suspect | None) -> str | None:
        """Try the message in a separate process, if deaths beside it are unexplained. Returns what ended that one."""
        if self.trial is None or suspect is None or not self.guard.wants_trial(suspect):
            return None
        message = self.source.message(position)
        cause = None if message is None else self.trial(message)
        if cause is None:
            self.guard.trial_passed(suspect)
        return cause

    def _control(self, position: Position, suspect: Suspect) -> Suspect:
        """Do other work: if it passes, a failure with the message alone is the message's fault. If the process dies
        here, the guard finds that at the next start. Raises Unattributed if a neighbour fails and the process lives."""
        self.guard.begin(self.number, suspect.span, AttemptStage.CONTROL)
        if suspect.stage is AttemptStage.MEMORY:
            _fill_memory()
        other = self._neighbour(position, suspect)
        if other is not None and (error := self._fails(other)) is not None:
            raise Unattributed.of(
                f"message {position} fails, and so does {other}, which is of the same kind: {error.message}",
                lane=self.lane,
            )
        return self.guard.control_passed(suspect)

    def _neighbour(self, position: Position, suspect: Suspect) -> Position | None:
        """The message read last before it in this process, else one that the lane has passed, else another one of its
        partition in the epoch: a different one each time, because that one may kill, too."""
        for table in reversed(self._tables):
            if table.num_rows:
                return Position(*(table[name][table.num_rows - 1].as_py() for name in ("topic", "partition", "offset")))
        if (before := self.neighbour(position)) is not None:
            return before
        first, end = self._span.start[position.tp], self._span.end[position.tp]
        offset = first + int((end - 1 - first) * _ELSEWHERE[suspect.control_failures % len(_ELSEWHERE)])
        return None if offset == position.offset else Position(*position.tp, offset)

    def _fails(self, position: Position) -> SurelaneError | None:
        kept = len(self._tables)
        try:
            return self._failure(lambda: self.source.part(single(position)))
        except MessagesGone:  # retention has deleted it
            return None
        finally:
            del self._tables[kept:]

    def _failure(self, read: Callable[[], pa.Table], *, rehearse: bool = True) -> SurelaneError | None:
        """Keep the rows that are read. Returns the error, if one of the messages may be the cause.

        `rehearse`: compute of these rows alone what is computed of an epoch.
        """
        try:
            rows = self._by_a_task(read)
            self.guard.doing(Activity.ARRANGE)
            if rehearse:
                EpochBatch.arrange(rows).rehearse()
            self._tables.append(rows)
        except TaskDied as died:
            return died
        except SurelaneError as error:
            if error.verdict is not Verdict.POISON:
                raise
            return error
        except MemoryError as error:
            raise OutOfMemory from error
        except Exception as error:  # noqa: BLE001  # one of these messages causes whatever fails in these rows
            return JobFailed(f"an epoch cannot be made of it: {type(error).__name__}: {error}")
        return None

    def _by_a_task(self, read: Callable[[], pa.Table]) -> pa.Table:
        """The rows; read again where a task died for a reason that has nothing to do with them. Raises TaskDied where
        these messages may be the cause; where they cannot be, Unreachable in the end."""
        for tried in itertools.count(1):
            try:
                return read()
            except TaskDied as died:
                match evidence_of(died.death):
                    case DeathEvidence.NOTHING if tried >= _PATIENT_TRIES:
                        raise Unreachable(died.message, hint="find out what ends Spark's tasks") from died
                    case (
                        DeathEvidence.FAILURE | DeathEvidence.MEMORY
                    ):  # a task does not share its memory: parts need less
                        raise
                    case DeathEvidence.UNEXPLAINED if tried >= _TRIES:
                        raise
                    case _:
                        log.info("a task has died; it is asked of another one", lane=self.lane, because=str(died.death))
        raise AssertionError("it counts without an end")

    def _without_bad(self, epoch: EpochBatch) -> EpochBatch:
        """Read malformed messages, and those that the transform raised for, again until they are good or condemned."""
        bad = epoch.of_kind(*_BAD)
        while len(bad):
            condemned: list[int] = []
            for ordinal in bad.tolist():
                suspect = self._bad(epoch, ordinal)
                if self.guard.condemns(suspect):
                    condemned.append(ordinal)
                    message = self.source.message(epoch.position(ordinal))
                    self.skipped.append(SkippedMessage.of_row(epoch, ordinal, suspect, message))
            epoch = self._read_again(epoch, bad, condemned)
            bad = epoch.of_kind(*_BAD)
        return epoch

    def _bad(self, epoch: EpochBatch, ordinal: int) -> Suspect:
        position, failed = epoch.position(ordinal), epoch.layout(ordinal).kind is RowKind.FAILED
        stage = AttemptStage.TRANSFORM if failed else AttemptStage.MESSAGE
        known = self.guard.suspect(single(position), stage)
        if known is not None and self.guard.condemns(known):
            return known
        raised = epoch.rows["line"][ordinal].as_py() if failed else ""
        failure = Failure(f"the transform raised {raised}", raised.partition(":")[0]) if failed else MALFORMED
        return self.guard.failed(single(position), stage, failure)

    def _read_again(self, epoch: EpochBatch, bad: Indices, condemned: list[int]) -> EpochBatch:
        """The epoch with its bad rows read once more, the condemned ones left out.

        One fetch reads them all; once the epoch was split, one fetch each, because a neighbour may kill the process.
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
        return EpochBatch.arrange(pa.concat_tables([rest.rows, found]))

    def _once_more(self, span: Span) -> pa.Table | None:
        """The rows of the span; None when they cannot be read now."""
        self.guard.cover(self.number, span, AttemptStage.DECODE)
        try:
            return self._by_a_task(lambda: self.source.part(span))
        except TaskDied:
            return None
        except SurelaneError as error:
            if error.verdict is not Verdict.POISON:
                raise
            return None


def _fill_memory() -> None:
    """Allocate memory, touch each page, and free it."""
    ballast = bytearray(BALLAST_BYTES)
    ballast[::4096] = b"x" * len(range(0, BALLAST_BYTES, 4096))
