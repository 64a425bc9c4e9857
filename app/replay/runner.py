"""Runs the lanes of a replay epoch by epoch, and opens them again after a failure that passes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

import pyarrow as pa
import structlog
from prometheus_client import CollectorRegistry

from app.config.settings import Settings
from app.errors import Diverged, Refused, SurelaneError, Verdict
from app.lane.lane import Lane
from app.metrics.lane_metrics import AllMetrics
from app.model.offsets import Offsets, Span
from app.protocol.fencing import open_without_checkpoint
from app.recover.catch_up import left_text
from app.replay.destination import NAME
from app.replay.metadata import ReplayMetadata
from app.replay.opening import Opening
from app.replay.origin import Origin
from app.source.messages import TaskMessages
from app.source.range_cutter import RangeCutter
from app.stage.lane_stage import StagedSpan
from app.stage.pool import Pool
from app.supervisor.link import Link
from app.worker.epoch_source import EpochSource
from app.worker.lane_factory import add_writers
from app.worker.lane_writer import LaneWriter
from app.worker.open_lanes import OpenLanes
from app.worker.stored_message_decoder import StoredMessages

log = structlog.get_logger()

#: failures of the verdict retry in a row, without an epoch between them
MAX_FAILURES = 6
#: seconds of the base and of the longest pause after a failure
PAUSE_SECONDS = (0.5, 10.0)
#: stands for the checkpoint's id and the delivery mode, which a replay does not have
_REPLAY = "replay"


class Run:
    """The run of a replay's lanes."""

    def __init__(
        self,
        settings: Settings,
        mark: ReplayMetadata,
        origin: Origin,
        pool: Pool,
        identity: tuple[str, dict[str, str]],
        opening: Opening,
        stop: Event,
        progress: Callable[[str], None],
    ) -> None:
        self._settings, self._mark, self._origin, self._pool = settings, mark, origin, pool
        self._messages = TaskMessages(pool, settings.lane, lambda: None, lambda *_: [], lambda: False)
        self._identity, self._opening, self._stop, self._progress = identity, opening, stop, progress
        self._metrics = AllMetrics({}, CollectorRegistry())
        self._writers: dict[str, LaneWriter] = {}
        self._lanes = OpenLanes(settings, self._metrics, pool, Link())
        self._cutter = RangeCutter(settings.epoch)
        self._number = 0
        self._failures = 0
        self._begun_at = time.monotonic()
        #: offsets that were left when this call began; None: not known yet
        self._first_left: int | None = None
        #: offsets that this call has processed
        self.messages = 0

    @property
    def position(self) -> Offsets:
        """The next offset to apply of each partition."""
        return self._lanes.position

    @property
    def held(self) -> int:
        """Number of offsets that were read and not applied."""
        return self.position.left_to(self._lanes.read)

    def to_the_end(self) -> None:
        """Run to the end, trying again after failures of verdict retry; raises Refused when `stop` is set before."""
        while True:
            try:
                with self._opened():
                    self._epochs()
                return
            except SurelaneError as error:
                self._failures += 1
                if error.verdict is not Verdict.RETRY or self._failures > MAX_FAILURES:
                    raise
                first, longest = PAUSE_SECONDS
                log.warning("trying again", because=error.message)
                self._stop.wait(min(longest, first * 2**self._failures))

    @contextmanager
    def _opened(self) -> Iterator[None]:
        try:
            add_writers(self._settings, self._writers, sorted(self._mark.goal), Link(), self._metrics, self._pool, NAME)
            stored = StoredMessages(self._messages.stored, self._origin.messages)
            for writer in self._writers.values():
                open_without_checkpoint(writer, writer.mine(self._mark.start), _REPLAY)
                writer.pin(*self._identity)
                self._lanes.open(writer, stored)
            self._number = 0
            yield
        finally:
            self._lanes.close()
            for writer in self._writers.values():
                writer.close()

    def _epochs(self) -> None:
        goal = self._mark.goal
        self._check_goal(goal)
        self._opening.check_there(self.position, goal)
        while left := self._lanes.read.left_to(goal):
            if self._stop.is_set():
                raise Refused(
                    f"the replay was stopped before its end, {left:,} messages are left at most",
                    hint="the same call goes on with it",
                )
            self._report_progress(left)
            self._epoch(self._cutter.next(self._lanes.read, goal))
        self._report_progress(0)

    def _check_goal(self, goal: Offsets) -> None:
        """Raises Refused where this call's end lies before what is applied."""
        if behind := [f"{tp}@{offset}" for tp, offset in self.position.items() if offset > goal[tp]]:
            raise Refused(
                f"the replay is past --to already, at {', '.join(behind)}",
                hint="what is applied is not taken back: name a later end, or begin anew with --anew",
            )

    def _epoch(self, span: Span) -> None:
        """Run one epoch on every lane that has messages in the span."""
        sizes: list[int] = []
        parts = self._lanes.parts(span)
        for lane, own in parts:  # several lanes stage side by side
            self._ask(lane, lane.position, [own])
        for lane, own in parts:

            def planned(own: Span = own) -> pa.Table:
                rows = self._part(own)
                sizes.append(rows.nbytes)
                return rows

            def staged(whole: Span, lane: Lane = lane, own: Span = own) -> StagedSpan | None:
                found = None if lane.stage is None else lane.stage.take(whole, self._origin.given(whole) or ())
                if found is not None:
                    sizes.append(found.receipt.size)
                    self._ask(lane, found.receipt.end, self._next(own, found.receipt.size), found.receipt.size)
                return found

            try:
                lane.process_epoch(self._number, own, EpochSource(planned, self._part, self._origin), staged)
            except Diverged:
                self._opening.check_there(self.position, self._mark.goal)  # its error names what is gone
                raise
        self.messages += span.size
        if sizes:
            self._cutter.learn(span, sum(sizes))
        self._number += 1
        self._failures = 0

    def _ask(self, lane: Lane, start: Offsets, planned: list[Span], size: int = 0) -> None:
        """Have epochs staged ahead, the first from `start`, where the lane's next one begins. Not where the archive has
        the first one's messages: they are given to a task at the epoch's turn."""
        if lane.stage is None or not planned:
            return
        starts = [start, *(one.end for one in planned[:-1])]
        spans = [Span(start=begin, end=one.end) for begin, one in zip(starts, planned, strict=True)]
        if self._origin.is_in_kafka(spans[0]):
            lane.stage.ask(spans, size)

    def _next(self, planned: Span, size: int) -> list[Span]:
        """Spans that are likely to follow an epoch, as many as may be staged ahead; none with a lane per partition."""
        if self._lanes.total is None:
            return []
        self._cutter.learn(planned, size)
        found = list[Span]()
        while len(found) <= self._pool.tasks and (at := (found[-1] if found else planned).end).left_to(self._mark.goal):
            found.append(self._cutter.next(at, self._mark.goal))
        return found

    def _part(self, span: Span) -> pa.Table:
        given = self._origin.given(span)
        return self._messages.part(span) if given is None else self._messages.stored(given)

    def _report_progress(self, left: int) -> None:
        if self._first_left is None:
            self._first_left, self._begun_at = left, time.monotonic()
        done, seconds = self._first_left - left, time.monotonic() - self._begun_at
        self._progress(left_text(left, done, seconds))
