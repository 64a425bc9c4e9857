"""One lane: takes the decoded epochs one after the other and applies each as a whole.

It knows nothing of Spark: an epoch is a number, a span of offsets, and a way to get the decoded rows.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import structlog
from sqlalchemy import Connection

from app import failpoint
from app.align.commit_order import ComesEarly
from app.align.cutter import Cut
from app.apply.applier import Applied, Applier
from app.apply.order_plan import FALLBACKS, OrderPlan
from app.apply.table_plans import TablePlan
from app.db.sqlstate import check_alive, check_kept, refusal_code, sqlstate, translated, unless_refused
from app.dispatch.lane_stage import LaneStage, StagedSpan
from app.epoch.epoch_batch import EpochBatch
from app.errors import AccountingBroken, Diverged, SurelaneError, Unattributed
from app.lane.alignment import Alignment
from app.lane.applying import EpochApplication
from app.lane.epoch_ledger import EpochLedger, log_epoch, recorded_failures
from app.lane.guarded_apply import GuardedApply
from app.lane.guarded_read import GuardedRead, Trial
from app.lane.step_timer import Steps
from app.ledger.store import Ledger
from app.metrics.lane_metrics import LaneMetrics
from app.model.activity import Activity
from app.model.counts import Counts
from app.model.epoch import EpochRecord
from app.model.gid import Gid
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.model.rows import NO_ROWS
from app.model.statement import Statement
from app.model.utc import utc_time
from app.poison.attempts import AttemptStage
from app.poison.epoch_rows import EpochRows
from app.poison.guard import Guard
from app.poison.row_parts import span_of
from app.protocol.committer import Committer
from app.protocol.participant import Work
from app.quarantine.quarantine_writer import QuarantineWriter
from app.quarantine.releases import QuarantineReleases
from app.quarantine.skipped_message import SkippedMessage
from app.stage.receipt import offsets_of

log = structlog.get_logger()

#: messages before a suspect that are searched for one that was not skipped
_NEIGHBOURS = 1000


#: epochs that are written step by step after one that could not be written at once: the next probably cannot
APART_EPOCHS = 10
#: seconds after a transaction's end for which its connection counts as alive
ALIVE_SECONDS = 1.0

#: source commit times of changes, seconds since 1970
SourceTimes = np.ndarray[tuple[int], np.dtype[np.float64]]


#: has tasks stage a span; returns None where its rows are needed
Stager = Callable[[Span], StagedSpan | None]


class _NotMergedError(Exception):
    """The target does not take the epoch as it is staged."""


@dataclass(frozen=True)
class _Read:
    """An epoch as it was read."""

    cut: Cut
    #: rows for the next epoch; None: to be read again
    held: pa.Table | None
    epoch: EpochBatch


@dataclass(frozen=True)
class _Unpublished:
    """An epoch that is written but perhaps not visible yet."""

    record: EpochRecord
    steps: Steps
    source_times: SourceTimes
    #: the reason of each skipped message, in one word
    reasons: Sequence[str] = ()


class Lane:
    """The writer of one lane. Used by one thread at a time; `publish` may be called by another."""

    def __init__(
        self,
        name: str,
        generation: int,
        connection: Connection,
        ledger: Ledger,
        committer: Committer,
        applier: Applier,
        guard: Guard,
        keeping: QuarantineWriter,
        releasing: QuarantineReleases,
        metrics: LaneMetrics,
        alignment: Alignment,
        trial: Trial | None = None,
        stage: LaneStage | None = None,
    ) -> None:
        """`stage` has tasks stage the epochs; None: none are staged."""
        self.name, self.stage = name, stage
        self._trial = trial
        self.committer = committer
        self._generation = generation
        self._connection = connection
        self._ledger = ledger
        self._applier = applier
        self._guard, self._keeping, self._releasing = guard, keeping, releasing
        self._metrics, self._alignment = metrics, alignment
        self._unpublished: _Unpublished | None = None
        #: the staged span that the last epoch merged
        self._staged: StagedSpan | None = None
        self._epochs = EpochLedger(name, generation, connection, ledger)
        with translated(f"lane {name}: reading ledger and quarantine"), connection.begin():
            last = ledger.last(connection)
            keeping.open(connection)
        if last is None:
            raise Diverged(
                f"lane {name}: the ledger has no row to go on from", hint="surelane run, which writes the first"
            )
        self._last = last
        #: epochs that are still written step by step
        self._apart = 0
        #: monotonic time of the last transaction's end
        self._alive_at = time.monotonic()

    @property
    def position(self) -> Offsets:
        """The end of what is applied."""
        return self._last.span.end

    @property
    def read(self) -> Offsets:
        """The end of what was read, where the next epoch has to start."""
        return self._last.read

    @property
    def next_number(self) -> int:
        """Behind that of the ledger's newest epoch."""
        return self._last.epoch + 1

    def process_epoch(self, number: int, planned: Span, source: EpochRows, stage: Stager | None = None) -> None:
        """Apply one epoch. When this returns it is pre-committed; when this raises nothing of it is left.

        `source` has the messages of exactly `planned`; `stage` has tasks stage them, None: they are read here.
        """
        with recorded_failures(self._guard, self.name):
            if self._alignment.order is not None:
                self._alignment.order.begin()
            steps = Steps()
            known = self._begin(number, planned, steps)
            if known or stage is None or not self._process_staged(number, planned, source, stage, steps):
                while self._comes_early(number, planned, source, steps, known=known):
                    self._applier.forget()
        self._guard.passed(self.position, is_visible=self.committer.pending is None and self.position == self.read)

    def apply_as_planned(self) -> None:
        """End epochs where they are planned, whatever is unread in other topics, until the lane is opened again."""
        self._alignment.order = None

    def waits(self, goal: Mapping[TopicPartition, int]) -> bool:
        """Whether messages before `goal` are read and wait for unread ones of another topic."""
        waiting = self._alignment.order.waiting if self._alignment.order is not None else {}
        return any(offset < goal.get(tp, 0) for tp, offset in waiting.items())

    def close(self) -> None:
        """Close what the lane has beside the writer's connection."""
        if self.stage is not None:
            if self._staged is not None and self.committer.pending is None:
                self._staged.release()
            self.stage.close()

    def release(self) -> None:
        """Apply the messages that operators want released, if any; call it only while no epoch is in progress, pending
        or to be replayed."""
        if not self._releasing.wanted.is_set():
            return
        with (
            recorded_failures(self._guard, self.name),
            translated(f"lane {self.name}: releasing", discreet=self._guard.discreet),
        ):
            check_kept(self._connection, f"lane {self.name}: releasing")
            self._releasing.run(self._connection, self._stage_nothing)
        self._guard.passed(self.position)

    @property
    def has_paused_tables(self) -> bool:
        """Whether epochs are read here, since changes of a table are parked."""
        return bool(self._keeping.paused)

    @property
    def wants_release(self) -> bool:
        """Whether an operator may have requested a release."""
        return self._releasing.wanted.is_set()

    def _stage_nothing(self) -> None:
        """Cancel what is staged ahead: the process that has to read now would work on that first."""
        if self.stage is not None:
            self.stage.ask([])

    def _begin(self, number: int, planned: Span, steps: Steps) -> bool:
        """Finish the epoch before, and release messages. Returns whether the target has this epoch already."""
        # 1. Settle: the epoch before has its checkpoint entry by now.
        with steps.of("settle"):
            self.committer.commit()
        check_kept(self._connection, f"lane {self.name}: epoch {number}")
        staged, self._staged = self._staged, None
        if staged is not None:
            staged.release()
        failpoint.reach("epoch-start")
        # 2. Release what operators want applied after all: older than this epoch, so not while an old one is replayed.
        known = self._is_applied(planned)
        if not known:
            self._check_continuity(number, self._last, planned)
            self.release()
        return known

    def _comes_early(self, number: int, planned: Span, source: EpochRows, steps: Steps, *, known: bool) -> bool:
        """Process an epoch. Returns true, with nothing of it left, where it has to be cut before one more message."""
        try:
            self._process(number, planned, source, steps, known=known)
        except ComesEarly as early:
            assert self._alignment.order is not None, "only an order of topics raises it"
            self._alignment.order.postpone(early.position)
            return True
        return False

    def _process_staged(self, number: int, planned: Span, source: EpochRows, stage: Stager, steps: Steps) -> bool:
        """Process an epoch that tasks stage: its rows do not come here. Returns false, with nothing of it left, where
        the rows are needed."""
        if self._guard.is_suspicious or self.has_paused_tables:
            return False
        # 3. Have it staged, under guard; it may have been staged ahead.
        whole = self._alignment.span(self._last, planned)
        with steps.of("guard"):
            self._guard.enter(whole)
            self._guard.begin(number, whole, AttemptStage.EPOCH)
        with steps.of("stage"):
            self._guard.doing(Activity.FETCH)
            staged = self._staged = stage(whole)
        if staged is None:
            return False
        receipt, span = staged.receipt, replace(whole, end=staged.receipt.end)
        steps.staging = receipt.milliseconds
        failpoint.reach("after-decode")
        # 5. Prepare what lives outside the transaction.
        with steps.of("prepare"):
            self._before_writing(number)
        # 6. Merge and pre-commit, all in one transaction.
        try:
            if not self._write_at_once(number, planned, span, source, steps, staged):
                self._write(number, planned, span, source, steps, partial(self._merged, number, planned, span, staged))
        except _NotMergedError as refused:
            log.info("not applied as staged", lane=self.name, epoch=number, because=str(refused))
            if self.stage is not None:
                self.stage.pause()
            return False
        if self._alignment.order is not None:
            self._alignment.order.waiting = offsets_of(receipt.waiting)
        self._alignment.keep(None if receipt.held else NO_ROWS, span.end)
        self._metrics.set_held(receipt.held)
        self._publish_if_committed()
        return True

    def _process(self, number: int, planned: Span, source: EpochRows, steps: Steps, *, known: bool) -> None:
        # 3. Read, under guard, part by part where something is suspected, and put the rows in order.
        self._stage_nothing()
        whole = self._last.span if known else self._alignment.span(self._last, planned)
        reader = GuardedRead(
            self._guard,
            self._alignment.source(source, whole, planned),
            number,
            lane=self.name,
            neighbour=self._neighbour,
            trial=self._trial,
        )
        with steps.of("decode"):
            read = self._read(reader, whole, source, known=known)
            cut, held, epoch = read.cut, read.held, read.epoch
        span = replace(whole, end=cut.end)
        failpoint.reach("after-decode")
        # 4. Known already? A crash between the target's commit and the checkpoint entry makes Spark replay the epoch.
        if known and not self.committer.reapplies:
            self._skip_epoch(number, len(epoch) + len(reader.skipped))
            return
        # 5. Prepare what lives outside the transaction: catalog, staging tables.
        with steps.of("prepare"):
            self._before_writing(number)
            shapes = self._applier.prepare(epoch, self._keeping.paused_layouts(epoch))
        # 6. Write and pre-commit, all in one transaction.
        unread = reader.skipped
        apply = partial(self._apply, number, planned, span, source, epoch, unread, shapes)
        self._write(number, planned, span, source, steps, apply)
        self._alignment.keep(held, span.end)
        self._metrics.set_held(cut.held.num_rows)
        self._publish_if_committed()

    def _before_writing(self, number: int) -> None:
        self._guard.doing(Activity.SERVER)
        self._check_alive(number)
        self._guard.record_target_contact()
        self._epochs.prune()

    def _check_alive(self, number: int) -> None:
        """Raise Unreachable where the connection was lost before the epoch: that is no message's fault. One that has
        just ended a transaction is alive."""
        if self._connection.invalidated or time.monotonic() - self._alive_at > ALIVE_SECONDS:
            check_alive(self._connection, f"lane {self.name}: epoch {number}")

    def _write(
        self,
        number: int,
        planned: Span,
        span: Span,
        source: EpochRows,
        steps: Steps,
        apply: Callable[[], tuple[EpochRecord, SourceTimes, Sequence[str]]],
    ) -> None:
        """Apply the messages of `span` and record that, in one transaction. `apply` returns the epoch's ledger row, and
        for the metrics source times and reasons of skips."""
        gid, doing = Gid(self.name, self._generation, number), f"lane {self.name}: epoch {number}"
        with translated(doing, discreet=self._guard.discreet), self.committer.transaction(Work(gid=gid, span=span)):
            failpoint.reach("after-begin")
            with steps.of("apply"):
                record, source_times, reasons = apply()
                record = replace(record, read_end=planned.end if span.end != planned.end else None)
            with steps.of("identify"):
                record = replace(record, last={**self._last.last, **source.identified(span)})
            failpoint.reach("after-merge")
            self._ledger.record(self._connection, record, joined=True)
            # 7. Publish when it is visible: at once, or when the prepared transaction is committed.
            self._unpublished = _Unpublished(record, steps, source_times, reasons)
            written = time.perf_counter()
        steps.add("pre-commit", time.perf_counter() - written)
        self._last, self._alive_at = record, time.monotonic()
        self._keeping.passed()

    def _write_at_once(
        self, number: int, planned: Span, span: Span, source: EpochRows, steps: Steps, staged: StagedSpan
    ) -> bool:
        """Merge few changes, record that and pre-commit, in one round trip. Returns false, with nothing of it left,
        where they have to be written step by step: that shows why the target does not take them like this."""
        if self._apart:
            self._apart -= 1
            return False
        if not staged.is_small or not self.committer.is_alone or failpoint.is_wanted(*failpoint.WRITTEN_NAMES):
            return False
        merged = partial(self._merged, number, planned, span, staged, at_once=True)
        try:
            self._write(number, planned, span, source, steps, merged)
        except SurelaneError as error:
            if (code := refusal_code(error)) is None:
                raise
            check_kept(self._connection, f"lane {self.name}: epoch {number}")
            log.info("not applied at once", lane=self.name, epoch=number, because=f"SQLSTATE {code}")
            self._apart = APART_EPOCHS
            return False
        merging = min(self._ledger.exact_seconds(self._connection), steps.seconds["pre-commit"])
        steps.add("apply", merging)
        steps.add("pre-commit", -merging)
        return True

    def _hold(self, number: int, planned: Span) -> EpochRecord | None:
        """Hold the lane in the epoch's transaction. Returns the ledger's newest row. Raises Fenced, or Diverged where
        the epoch does not continue it."""
        self._ledger.hold(self._connection, self._generation)
        last = self._ledger.last(self._connection)
        self._check_continuity(number, last, planned)
        return last

    def _execute(self, number: int, planned: Span, statements: Sequence[Statement]) -> list[int]:
        """Hold the lane and execute statements, in one round trip. Returns how many rows each changed."""
        counts = self._ledger.apply(self._connection, self._generation, self._last, statements)
        if counts is None:  # this raises the reason, unless the row is another one that the epoch continues
            last = self._hold(number, planned)
            counts = self._ledger.apply(self._connection, self._generation, last, statements)
        assert counts is not None, "the lane is held"
        return counts

    def _execute_exactly(self, statements: Sequence[Statement]) -> None:
        """As `_execute`, with the transaction's end, which fails where they do something else than they should."""
        self._ledger.apply_exactly(self._connection, self._generation, self._last, statements)

    def _publish_if_committed(self) -> None:
        if self.committer.pending is None:
            self.publish()

    def _read(self, reader: GuardedRead, whole: Span, source: EpochRows, *, known: bool) -> "_Read":
        """Read the epoch and put it in order; message by message where it fails as a whole. Raises Unattributed where
        the epoch fails though each of its messages passes."""
        rows = reader.read(whole)
        try:
            return self._ordered(reader, rows, whole, source, known=known)
        except (SurelaneError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  # a message of it may be the cause: each is tried by itself
            log.warning("an epoch fails as a whole", lane=self.name, because=f"{type(error).__name__}: {error}")
            rows = reader.read_in_parts(whole)
        try:
            return self._ordered(reader, rows, whole, source, known=known)
        except (SurelaneError, MemoryError):
            raise
        except Exception as error:
            failed = f"{type(error).__name__}: {error}"
            raise Unattributed.of(
                f"the epoch from {whole.start} to {whole.end} cannot be put in order ({failed}), though each of its "
                "messages can be",
                lane=self.name,
            ) from error

    def _ordered(self, reader: GuardedRead, rows: pa.Table, whole: Span, source: EpochRows, *, known: bool) -> "_Read":
        self._guard.doing(Activity.ARRANGE)
        _check_span(self.name, rows, whole)
        cut = Cut.nowhere(rows, whole.end) if known else self._alignment.cut(rows, whole, source)
        held = cut.held if reader.all_before(cut.end) and not known else None
        epoch = reader.sound(cut.rows)
        epoch.source_times()  # a failure in it is raised here, where the message at fault is searched for
        return _Read(cut, held, epoch)

    def _neighbour(self, position: Position) -> Position | None:
        """The nearest message before it that the lane has passed and did not skip."""
        last = min(position.offset, self.position.get(position.tp, 0))
        first = max(0, last - _NEIGHBOURS)
        with translated(f"lane {self.name}: reading the quarantine"), self._connection.begin():
            skipped = self._keeping.skipped_between(self._connection, position.tp, first, last)
        well = [offset for offset in range(first, last) if offset not in skipped]
        return Position(*position.tp, well[-1]) if well else None

    def _apply(
        self,
        number: int,
        planned: Span,
        span: Span,
        source: EpochRows,
        epoch: EpochBatch,
        unread: list[SkippedMessage],
        shapes: dict[int, TablePlan],
    ) -> tuple[EpochRecord, SourceTimes, Sequence[str]]:
        """Apply what was read, quarantine what is skipped; see `_write`."""
        self._hold(number, planned)
        skips = self._keeping.begin(self._connection, epoch, source, unread)
        sending = GuardedApply(
            self._connection, self._applier, self._guard, number, epoch, shapes, skips, self._alignment.order
        )
        applied = EpochApplication(sending, span).run()
        self._guard.written(number, span)
        if applied.plan is OrderPlan.NARROWED:
            sending.keep_versions()
        if skips.condemned:
            self._applier.forget()
        self._keeping.end(self._connection, number, skips, shapes)
        applied = replace(applied, counts=applied.counts + Counts(consumed=len(unread), quarantined=len(unread)))
        record = self._record(number, span, epoch.source_times(), len(epoch) + len(unread), applied)
        return record, epoch.source_times(), skips.reasons()

    def _merged(
        self, number: int, planned: Span, span: Span, staged: StagedSpan, *, at_once: bool = False
    ) -> tuple[EpochRecord, SourceTimes, Sequence[str]]:
        """Merge what is staged; see `_write`. Raises _NotMergedError where the target does not take it as a whole."""
        self._keeping.drop()
        self._guard.cover(number, span, AttemptStage.APPLY)
        receipt = staged.receipt
        execute = self._execute_exactly if at_once else partial(self._execute, number, planned)
        merged = unless_refused(
            lambda: self._applier.merge(self._connection, receipt.messages, staged.layouts, execute, at_once=at_once)
        )
        if not isinstance(merged, Applied):
            raise _NotMergedError("its order matters" if merged is None else f"SQLSTATE {sqlstate(merged)}")
        self._guard.written(number, span)
        times = receipt.source_times
        return self._record(number, span, times, receipt.messages, merged), times, ()

    def publish(self, commit_seconds: float | None = None) -> None:
        """Count and log the epoch that has just become visible. `commit_seconds`: of COMMIT PREPARED."""
        done, self._unpublished = self._unpublished, None
        if done is None:
            return
        record = done.record
        if commit_seconds is not None:
            done.steps.add("commit", commit_seconds)
        self._metrics.epoch_done(record, done.steps.seconds, time.time() - done.source_times)
        self._metrics.set_position(record.span.end)
        for reason in done.reasons:
            self._metrics.quarantined(reason)
        if record.plan in FALLBACKS:
            self._metrics.fallback(record.plan)
        log_epoch(record, done.steps, plan=record.plan)

    def _is_applied(self, planned: Span) -> bool:
        """Whether the target has this epoch. A new checkpoint begins at the position: what it plans is not applied."""
        return self.read == planned.end and planned.start not in (self.read, self.position)

    def _skip_epoch(self, number: int, consumed: int) -> None:
        self._last = self._epochs.skip(number, self._last, consumed)
        self._unpublished = _Unpublished(self._last, Steps(), np.empty(0, np.float64))
        self.publish()

    def _check_continuity(self, number: int, last: EpochRecord | None, planned: Span) -> None:
        """Raises Diverged where messages would be lost or applied twice. A plan begins at the end of what was read, or,
        with a new checkpoint, at the end of what was applied: held messages are read again."""
        if last is not None and (_extends(last.read, planned.start) or _extends(last.span.end, planned.start)):
            return
        if self.committer.reapplies and last is not None and last.read == planned.end:
            return
        raise Diverged.target_behind(
            f"lane {self.name}: epoch {number} starts at {planned.start}, but the target's ledger ends at "
            f"{last.read if last else None}: "
            "messages between the two would be lost or applied twice. Nothing of this epoch was applied.",
            lane=self.name,
            position=last.span.end if last else "its own position",
        )

    def _record(self, number: int, span: Span, times: SourceTimes, messages: int, applied: Applied) -> EpochRecord:
        if not applied.counts.adds_up or applied.counts.consumed != messages:
            raise AccountingBroken(f"lane {self.name}: epoch {number}: {applied.counts} of {messages} messages read")
        record = EpochRecord(
            lane=self.name,
            generation=self._generation,
            epoch=number,
            span=span,
            counts=applied.counts,
            plan=applied.plan,
        )
        if not len(times):
            return record
        return replace(record, source_from=utc_time(float(times.min())), source_to=utc_time(float(times.max())))


def _extends(end: Offsets, start: Offsets) -> bool:
    """Whether `start` equals `end`, except for new partitions, which begin at 0."""
    return all(start.get(tp) == offset for tp, offset in end.items()) and not any(
        offset for tp, offset in start.items() if tp not in end
    )


def _check_span(lane: str, rows: pa.Table, span: Span) -> None:
    """Raises Diverged for a row that is not in the span that the checkpoint planned."""
    if not rows.num_rows:
        return
    found = span_of(rows)
    for tp, after in found.end.items():
        start, end = span.start.get(tp), span.end.get(tp)
        if start is None or end is None or not start <= found.start[tp] < after <= end:
            raise Diverged(
                f"lane {lane}: {tp} delivered offsets {found.start[tp]} to {after - 1}, planned were {start} to {end}",
                hint="the topic changed under the lane; run `surelane doctor`",
            )
