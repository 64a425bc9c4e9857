"""One query: takes the epochs of its result one after the other, and applies each as a whole.

Spark computes an epoch while the staging runs, and writes its state when the callback has returned, before `commits/N`.
So an epoch that the target has already is computed once more, for its state, and its rows are left out.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import structlog
from sqlalchemy import Connection

from app import failpoint
from app.db.sqlstate import check_alive, check_kept, translated
from app.epoch.epoch_batch import EpochBatch
from app.errors import AccountingBroken, Diverged, Replanned, SurelaneError, Unattributed, Verdict
from app.lane.epoch_ledger import EpochLedger, log_epoch, recorded_failures
from app.lane.guarded_read import GuardedRead
from app.lane.step_timer import Steps
from app.ledger.store import Ledger
from app.metrics.lane_metrics import LaneMetrics
from app.model.activity import Activity
from app.model.counts import Counts
from app.model.epoch import EpochRecord
from app.model.gid import Gid
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.model.rows import NO_ROWS
from app.poison.attempts import AttemptStage
from app.poison.epoch_rows import EpochRows
from app.poison.guard import Guard
from app.poison.narrowing import only_position
from app.protocol.committer import Committer
from app.protocol.participant import Work
from app.quarantine.quarantine_writer import QuarantineWriter
from app.quarantine.skipped_message import SkippedMessage
from app.query.poison_search import plain_position
from app.query.result_sink import ResultSink, Written
from app.query.staged_results import StagedPart
from app.spark.entries import topic_of

log = structlog.get_logger()

#: the ledger's name of how rows were written
_PLAN = "query"


@dataclass(frozen=True)
class ResultRows:
    """The result of one epoch."""

    #: compute it, and have the sink stage its rows; None: compute it only, for its state
    stage: Callable[[ResultSink | None], list[StagedPart]]
    #: messages that were read for it; call it after `stage`
    consumed: Callable[[], int]
    #: its messages, to be tried in parts
    messages: EpochRows


@dataclass(frozen=True)
class _UnpublishedEpoch:
    record: EpochRecord
    steps: Steps
    written: Written
    reasons: Sequence[str]


@dataclass(frozen=True)
class Rebuild:
    """A result that is computed anew, beside the old rows."""

    #: the query's, with another table
    sink: ResultSink
    #: in the epoch's transaction: put the new rows in place of the old ones; returns their number
    end: Callable[[Connection], int]
    #: what Kafka had when the run began
    goal: Mapping[TopicPartition, int]

    def is_whole(self, end: Offsets) -> bool:
        """Whether every stream has been read so far."""
        return all(
            offset >= self.goal.get(TopicPartition(topic_of(tp.topic), tp.partition), 0) for tp, offset in end.items()
        )


class QueryLane:
    """The writer of one query. Used by one thread at a time; `publish` may be called by another."""

    def __init__(
        self,
        name: str,
        generation: int,
        connection: Connection,
        ledger: Ledger,
        committer: Committer,
        sink: ResultSink,
        guard: Guard,
        keeping: QuarantineWriter,
        metrics: LaneMetrics,
        left_out: Sequence[Position],
        rebuild: Rebuild | None = None,
    ) -> None:
        """`left_out`: condemned messages, which the query's plan leaves out; `rebuild`: where the rows go first."""
        self.name, self.committer, self.sink = name, committer, sink
        self._generation, self._connection, self._ledger = generation, connection, ledger
        self._guard, self._keeping, self._metrics = guard, keeping, metrics
        self._left_out = frozenset(left_out)
        self._unpublished: _UnpublishedEpoch | None = None
        self._epochs = EpochLedger(name, generation, connection, ledger)
        self._rebuild = rebuild
        with translated(f"lane {name}: reading ledger and quarantine"), connection.begin():
            last = ledger.last(connection)
            self._checkpoints = ledger.checkpoints(connection)
            keeping.open(connection)
        assert last is not None, "opening writes the first row"
        self._last = last

    @property
    def position(self) -> Offsets:
        """The end of what is applied."""
        return self._last.span.end

    def process_epoch(self, number: int, planned: Span, rows: ResultRows) -> None:
        """Apply one epoch. When this returns it is pre-committed; when this raises nothing of it is left."""
        with recorded_failures(self._guard, self.name):
            steps = Steps()
            with steps.of("settle"):
                self.committer.commit()
            failpoint.reach("epoch-start")
            known = self._is_applied(number)
            if not known:
                self._check_continuity(number, planned)
            skipped = self._tried(number, planned, rows)
            with steps.of("prepare"):
                self._before_writing(number)
            self._guard.doing(Activity.FETCH)
            if known and not self.committer.reapplies:
                with steps.of("stage"):
                    self._computed(planned, rows, None)
                self._skip_epoch(number, rows.consumed())
            else:
                self._apply(number, planned, rows, skipped, steps)
        self._guard.passed(self.position)

    def publish(self, commit_seconds: float | None = None) -> None:
        """Count and log the epoch that has just become visible. `commit_seconds`: of COMMIT PREPARED."""
        done, self._unpublished = self._unpublished, None
        if done is None:
            return
        record = done.record
        if commit_seconds is not None:
            done.steps.add("commit", commit_seconds)
        self._metrics.epoch_done(record, done.steps.seconds, np.empty(0, np.float64))
        self._metrics.query_rows(done.written.upserted, done.written.deleted)
        for reason in done.reasons:
            self._metrics.quarantined(reason)
        log_epoch(record, done.steps, upserted=done.written.upserted, deleted=done.written.deleted)

    def _is_applied(self, number: int) -> bool:
        """Whether the target has this epoch of this checkpoint. Its position does not tell: epochs may be empty."""
        mine, doing = self._checkpoints.get(self._generation), f"lane {self.name}: epoch {number}"
        check_kept(self._connection, doing)
        with translated(doing), self._connection.begin():
            found = self._ledger.numbered(self._connection, number)
        return any(self._checkpoints.get(one.generation) == mine for one in found)

    def _check_continuity(self, number: int, planned: Span) -> None:
        ends = self._last.span.end
        if any(planned.start.get(tp) != offset for tp, offset in ends.items()):
            raise Diverged.state_lost(
                f"lane {self.name}: epoch {number} starts at {planned.start}, but the target's ledger ends at {ends}. "
                "Nothing of this epoch was applied",
                lane=self.name,
            )

    def _tried(self, number: int, planned: Span, rows: ResultRows) -> list[SkippedMessage]:
        """Begin the epoch under guard; where something is suspected, try its parts. Returns the messages of it that the
        plan leaves out. Raises Replanned where more have to be."""
        if not self._guard.spans(AttemptStage.DECODE):
            self._guard.enter(planned)
            self._guard.begin(number, planned, AttemptStage.EPOCH)
            return []
        reader = self._reader(number, rows)
        reader.read(planned)
        self._check_left_out(reader)
        return self._in(planned, reader.skipped)

    def _reader(self, number: int, rows: ResultRows) -> GuardedRead:
        return GuardedRead(self._guard, rows.messages, number, lane=self.name)

    def _check_left_out(self, reader: GuardedRead) -> None:
        new = [one for one in reader.skipped if plain_position(one.message.position) not in self._left_out]
        if new:
            raise Replanned(
                f"lane {self.name}: {', '.join(str(one.message.position) for one in new)} cannot be computed; the "
                "query starts again without it"
            )

    def _in(self, planned: Span, skipped: Sequence[SkippedMessage]) -> list[SkippedMessage]:
        """One for each message, though several sources may read it."""
        return list({one.message.position: one for one in skipped}.values()) if planned.size else []

    def _computed(self, planned: Span, rows: ResultRows, sink: ResultSink | None) -> list[StagedPart]:
        """Have Spark compute the epoch. Where that fails because of a row, look for its message."""
        number = self._last.epoch  # of no epoch: for the guard's record only
        try:
            return rows.stage(sink)
        except SurelaneError as error:
            if error.verdict is not Verdict.POISON:
                raise
            log.warning("an epoch fails as a whole", lane=self.name, because=error.message[:500])
            reader = self._reader(number, rows)
            reader.read_in_parts(planned)
            self._check_left_out(reader)
            raise Unattributed.of_query(
                f"the epoch from {planned.start} to {planned.end} cannot be computed ({error.message[:500]}), though "
                "each of its messages can be read",
                lane=self.name,
            ) from error

    def _before_writing(self, number: int) -> None:
        check_alive(self._connection, f"lane {self.name}: epoch {number}")
        self._epochs.prune()

    def _apply(self, number: int, planned: Span, rows: ResultRows, skipped: list[SkippedMessage], steps: Steps) -> None:
        doing, gid = f"lane {self.name}: epoch {number}", Gid(self.name, self._generation, number)
        sink = self.sink if self._rebuild is None else self._rebuild.sink
        with steps.of("stage"):
            with translated(doing), self._connection.begin():
                sink.make_room(self._connection, gid)
            receipts = self._computed(planned, rows, sink)
            sink.check(receipts)
        failpoint.reach("after-decode")
        consumed = rows.consumed()
        self._guard.doing(Activity.SERVER)
        self._guard.record_target_contact()
        with (
            translated(doing, discreet=self._guard.discreet),
            self.committer.transaction(Work(gid=gid, span=planned)),
        ):
            self._ledger.hold(self._connection, self._generation)
            failpoint.reach("after-begin")
            with steps.of("apply"):
                skips = self._keeping.begin(self._connection, EpochBatch.arrange(NO_ROWS), rows.messages, skipped)
                written = sink.write(self._connection, gid, receipts)
                self._keeping.end(self._connection, number, skips, {})
            counts = Counts(consumed=consumed, applied=consumed - len(skipped), quarantined=len(skipped))
            if not counts.adds_up or counts.applied < 0:
                raise AccountingBroken(f"{doing}: {counts}")
            record = EpochRecord(
                lane=self.name, generation=self._generation, epoch=number, span=planned, counts=counts, plan=_PLAN
            )
            is_rebuilt = self._end_rebuild(number, planned)
            failpoint.reach("after-merge")
            self._ledger.record(self._connection, record)
            self._unpublished = _UnpublishedEpoch(record, steps, written, skips.reasons())
            at = time.perf_counter()
        steps.add("pre-commit", time.perf_counter() - at)
        self._last = record
        self._rebuild = None if is_rebuilt else self._rebuild
        self._keeping.passed()
        if self.committer.pending is None:
            self.publish()

    def _end_rebuild(self, number: int, planned: Span) -> bool:
        """In the epoch's transaction: put the new rows in place of the old ones, once they are whole."""
        rebuild = self._rebuild
        if rebuild is None or not rebuild.is_whole(planned.end):
            return False
        rows = rebuild.end(self._connection)
        log.info("rebuilt", lane=self.name, epoch=number, rows=rows, of=str(self.sink))
        return True

    def _skip_epoch(self, number: int, consumed: int) -> None:
        self._last = self._epochs.skip(number, self._last, consumed)
        self._unpublished = _UnpublishedEpoch(self._last, Steps(), Written(0, 0), ())
        self.publish()


def condemned(guard: Guard) -> list[Position]:
    """Positions of the messages that the guard has condemned and the lane has not passed."""
    found = (only_position(suspect.span) for suspect in guard.condemned())
    return [plain_position(position) for position in found if position is not None]
