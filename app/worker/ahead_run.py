"""A run that begins epochs before Spark has planned them, where that is possible."""

from abc import abstractmethod
from functools import partial

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from app.config.settings import Settings
from app.dispatch.pool import Pool
from app.errors import EnvironmentMissing, MessagesGone, Unreachable
from app.metrics.health import Health
from app.metrics.lane_metrics import AllMetrics
from app.model.death import Death
from app.model.offsets import Offsets, Span
from app.spark.job_errors import spark_errors
from app.spark.session import is_gone
from app.supervisor.link import Link
from app.worker.epoch_forecast import EpochForecast
from app.worker.expected_epoch import ExpectedEpoch
from app.worker.going_ahead import AheadStep, GoingAhead
from app.worker.lane_writer import LaneWriter
from app.worker.log_identity import LogIdentity
from app.worker.open_lanes import OpenLanes
from app.worker.planned_epochs import PlannedEpochs
from app.worker.spark_run import SparkRun, StopRequested
from app.worker.unplanned import Unplanned, rest

#: longest time that an epoch of Spark stays open while the lane goes ahead: Spark makes no plans meanwhile
OPEN_SECONDS = 5.0
#: longest time that the query's start waits for the first epoch: both need the processors
FIRST_SECONDS = 2.0
#: most epochs of a backlog that a lane is ahead of Spark, which has to plan each before the lane can leave one to it
AHEAD_EPOCHS = 10


class AheadRun(SparkRun):
    """In one phase a lane goes ahead of the checkpoint. In two phases it begins the epochs of a backlog, whose plan is
    known, and pre-commits them once they are planned."""

    #: set when the lanes are opened
    _identity: LogIdentity

    def __init__(
        self,
        settings: Settings,
        spark: SparkSession,
        writers: dict[str, LaneWriter],
        health: Health,
        metrics: AllMetrics,
        link: Link,
        death: Death | None,
        pool: Pool,
    ) -> None:
        """`pool`: the tasks that stage."""
        super().__init__(settings, spark, writers, health, metrics, link, death)
        self._lanes = OpenLanes(settings, metrics, pool, link)
        self._foresight = EpochForecast(self._broker, self._size, settings, pool.tasks)
        self._unplanned = Unplanned(self._broker, settings.lane)
        self._expected = ExpectedEpoch(self._checkpoint.written, link.still, self._plans_no_more)
        self._planned: PlannedEpochs | None = None
        self._ahead: GoingAhead | None = None
        #: the end of what Spark has planned and the lane processed, whether that was a whole epoch, and the next number
        self._planned_end, self._was_full, self._next_number = Offsets(), True, 0
        self._is_closing = False

    @abstractmethod
    def _apply_span(self, span: Span, number: int) -> None:
        """Apply the messages of `span` as epoch `number`, with the lock."""

    @abstractmethod
    def _is_suspicious(self) -> bool:
        """Whether nothing may be staged ahead."""

    @abstractmethod
    def _release(self) -> None:
        """Apply requested releases, where no epoch is pending or planned."""

    def _before_query(self, start: Offsets) -> None:
        """Have the lane begin while Spark starts the query, where it need not wait for a plan."""
        settings = self._settings
        if self._until_caught_up or not (settings.goes_ahead or settings.expects_epochs):
            return
        self._find_next(start)
        self._release()
        if self._ahead is None:
            step = self._step_and_let_go if settings.goes_ahead else self._step_expected
            self._ahead = GoingAhead(step, partial(is_gone, self._spark))
            self._closing.callback(self._stop_ahead)
        self._ahead.follow(FIRST_SECONDS if settings.goes_ahead else 0)

    def _find_next(self, start: Offsets) -> None:
        """Find what the checkpoint goes on with: an epoch that is planned and not complete, or one that comes next."""
        with spark_errors():
            entries, self._was_full = self._checkpoint.written, True
            if (planned := entries.last_planned()) is None:
                self._next_number, self._planned_end = 0, start
                return
            span, is_complete = entries.span(planned), entries.is_complete(planned)
        self._expected.notice(planned)
        self._next_number, self._planned_end = (planned + 1, span.end) if is_complete else (planned, span.start)

    def _notice_planned(self) -> None:
        """Begin the epochs from now on as soon as Spark has planned them."""
        if self._planned is None:
            self._planned = PlannedEpochs(self._entries("offsets"), self._on_planned, partial(is_gone, self._spark))
            self._closing.callback(self._planned.stop)
            self._planned.start()

    def _on_planned(self, number: int) -> None:
        self._notice_plan(number)
        self._begin_early(number)

    def _notice_plan(self, number: int) -> None:
        self._expected.notice(number)

    def _process(self, rows: DataFrame | None, number: int) -> None:
        del rows
        span = self._expected.span(number) or self._checkpoint.written.span(number)
        if not span.goes_on:
            raise MessagesGone.of(f"from {span.start} on, where Kafka ends at {span.end}", lane=self._settings.lane)
        self._planned_end, self._was_full, self._next_number = span.end, span.size >= self._size.messages, number + 1
        if (lane := self._lanes.total) is not None and self._settings.goes_ahead:
            span, number = rest(span, lane.read), lane.next_number
            if not span.size:
                return
        self._apply_span(span, number)
        self._expected.confirm()

    def _go_ahead(self) -> None:
        if self._ahead is None or self._stop.is_set():
            return
        if not self._settings.goes_ahead:
            if self._was_full:
                self._ahead.follow(0)
        else:
            self._ahead.follow(0 if self._is_far_ahead() else OPEN_SECONDS)

    def _step_and_let_go(self) -> AheadStep:
        try:
            return self._step_ahead()
        finally:
            if self._ahead is not None and (self._query is None or self._is_far_ahead()):
                self._ahead.let_go()

    def _step_ahead(self) -> AheadStep:
        """Apply what Kafka has behind what the lane has read, of a backlog one epoch."""
        lane = self._lanes.total
        if lane is None or lane.wants_release or self._must_wait():
            return AheadStep.LEFT
        try:
            found = self._unplanned.span(lane.read)
        except (Unreachable, EnvironmentMissing):
            return AheadStep.LEFT  # Spark asks by itself
        if self._identity.has_more(lane.read):
            return AheadStep.LEFT
        if not found.size:
            return AheadStep.NOTHING
        with self._writing:
            if self._error is not None or not self._gate.is_open:
                return AheadStep.LEFT
            span = rest(found, lane.read)  # an epoch of Spark may have come in between
            if span.size > self._size.messages:
                if self._is_far_ahead(AHEAD_EPOCHS) or (whole := self._foresight.certain(lane.read)) is None:
                    return AheadStep.LEFT
                span = whole
            try:
                self._check_tables()
                if span.size:
                    self._apply_span(span, lane.next_number)
            except StopRequested:
                return AheadStep.LEFT
            except BaseException as error:
                self._error = error
                raise
        return AheadStep.APPLIED

    def _is_far_ahead(self, epochs: int = 1) -> bool:
        """Whether Spark needs more than so many epochs to plan what is applied: it would have to plan all that before
        the lane could leave anything to it."""
        lane = self._lanes.total
        return lane is not None and Span(start=self._planned_end, end=lane.read).size > epochs * self._size.messages

    def _step_expected(self) -> AheadStep:
        """Once the epoch before is committed, begin the next one before Spark has planned it, if it is known what Spark
        plans; or replay the one that is planned and not complete."""
        if self._lanes.total is None or not self._was_full or not self._is_predictable or self._must_wait():
            return AheadStep.LEFT
        if self._early is not None or self._pending.waiting:
            return AheadStep.NOTHING
        with self._writing:
            if self._error is not None or not self._gate.is_open:
                return AheadStep.LEFT
            if self._early is not None or self._pending.waiting or not self._was_full:
                return AheadStep.NOTHING
            span = self._expected_span(self._next_number)
            if span is None:
                return AheadStep.LEFT
            self._expected.expect(self._next_number, span)
            try:
                self._process_early(self._next_number)
            except StopRequested:
                self._expected.forget()
                return AheadStep.LEFT
            if not self._expected.is_reliable:
                next(iter(self._writers.values())).is_predictable = False
        return AheadStep.APPLIED

    def _expected_span(self, number: int) -> Span | None:
        if self._expected.is_planned(number):
            return self._checkpoint.written.span(number)
        return self._foresight.certain(self._planned_end)

    def _must_wait(self) -> bool:
        """Whether nothing begins without a plan."""
        return self._stop.is_set() or self._size.is_off or self._is_suspicious()

    @property
    def _is_predictable(self) -> bool:
        return all(writer.is_predictable for writer in self._writers.values())

    def _plans_no_more(self) -> bool:
        """Whether the query has ended, or will not start."""
        if self._is_closing or is_gone(self._spark):
            return True
        try:
            return self._query is not None and not self._query.isActive
        except (Py4JError, ConnectionError):
            return True

    def _stop_ahead(self) -> None:
        self._is_closing = True
        if self._ahead is not None:
            self._ahead.stop()
