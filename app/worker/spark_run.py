"""What every run of a streaming query has: it starts the query, gives each epoch to its lanes, watches it, and ends
what is pending. `StreamingRun` is that of lanes, `QueryRun` that of a query."""

import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from app.config.settings import Settings
from app.db.locks import lock_holder
from app.errors import Refused, SurelaneError
from app.kafka.broker import Broker
from app.ledger.pauses import PAUSED
from app.metrics.health import Health
from app.metrics.lane_metrics import AllMetrics
from app.model.death import Death
from app.model.offsets import Offsets
from app.protocol.checkpoint_watcher import CheckpointWatcher
from app.protocol.committer import Committer
from app.protocol.pending_epochs import PendingEpochs
from app.source.size import EpochSize
from app.spark.checkpoint import Checkpoint
from app.spark.entry_events import EntryEvents
from app.spark.job_errors import spark_errors
from app.spark.session import ComingSession
from app.supervisor.link import Link
from app.worker.dead_letter_sender import DeadLetterSender
from app.worker.epoch_gate import EpochGate
from app.worker.lane_writer import LaneWriter
from app.worker.monitor import Monitor
from app.worker.replica_lag import WAITING
from app.worker.server_watch import ServerWatch

log = structlog.get_logger()

#: seconds between two checks of query, watcher and stop request
LOOK_SECONDS = 0.1
#: seconds after which a state is recorded again that could not be
SAY_AGAIN_SECONDS = 1.0
#: seconds that a stopping lane waits for the checkpoint entry of a prepared epoch
STOP_WAIT_SECONDS = 30.0


class StopRequested(Exception):  # no error: the query stops before the epoch begins
    """The lane has a stop request, or the epoch size is about to change."""


#: receives the rows, None where tasks read them, and the number of each epoch
OnEpoch = Callable[[DataFrame | None, int], None]


class SparkRun(ABC):
    """`writers` outlives the run and keeps each lane's generation."""

    def __init__(
        self,
        settings: Settings,
        spark: ComingSession,
        writers: dict[str, LaneWriter],
        health: Health,
        metrics: AllMetrics,
        link: Link,
        death: Death | None,
    ) -> None:
        """`death`: of the previous worker."""
        self._settings, self._spark, self._writers = settings, spark, writers
        self._health, self._metrics, self._link, self._death = health, metrics, link, death
        self._broker = Broker(settings.source)
        self._size = EpochSize(settings.epoch)
        self._checkpoint = Checkpoint(spark, settings.checkpoint)
        self._pending = PendingEpochs(self._committers, self._is_complete)
        self._closing = ExitStack()
        commits = self._entries("commits")
        self._closing.callback(commits.close)
        self._watcher = CheckpointWatcher(self._pending, commits.wait)
        self._closing.callback(self._broker.close)
        self._stop, self._until_caught_up = threading.Event(), False
        self._in_epoch = threading.Event()
        self._monitor: Monitor | None = None
        self._gate = EpochGate(settings.limits, self._is_held, lambda: self._stop.is_set() or self._size.is_off)
        #: the state that was recorded last, and what the lanes wait for in it
        self._state: tuple[str, str | None] = ("", None)
        #: monotonic time from which on a state is recorded that could not be
        self._say_again_at = 0.0
        #: lock on the lanes: Spark's thread holds it during an epoch, this thread for a release between two epochs
        self._writing = threading.Lock()
        self._query: StreamingQuery | None = None
        self._error: BaseException | None = None
        #: epochs that this run has processed
        self.epochs = 0
        #: number of the epoch that was begun last, with the lock
        self._begun_last = -1
        #: the epoch that was begun before Spark has called the lane with it, and what it failed with; None: it passed
        self._early: tuple[int, BaseException | None] | None = None
        #: whether lanes were opened, and the query was started, or what comes before it
        self.started = False

    def _entries(self, name: str) -> EntryEvents:
        """The entries of a folder of the checkpoint."""
        folder = self._checkpoint.folder
        return EntryEvents(None if folder is None else folder / name)

    @abstractmethod
    def run(self, stop: threading.Event, *, until_caught_up: bool) -> None:
        """Run until `stop` is set or, with `until_caught_up`, until all messages that Kafka has now are applied."""

    @abstractmethod
    def _committers(self) -> list[Committer]:
        """Those of the open lanes."""

    @abstractmethod
    def _start_writer(self, start: Offsets, on_epoch: OnEpoch, most: int, until_caught_up: bool) -> StreamingQuery:
        """Start Spark's query, which continues from the checkpoint, or from `start` when that is empty. `most`: limit
        of an epoch's messages."""

    @abstractmethod
    def _process(self, rows: DataFrame | None, number: int) -> None:
        """Process an epoch, with the lock."""

    @abstractmethod
    def _go_ahead(self) -> None:
        """Called once an epoch has passed, before Spark completes it."""

    def _check_tables(self) -> None:
        """Raise where the tables are not those that the lanes have opened."""
        if self._monitor is not None and self._monitor.stop_because is not None:
            raise StopRequested

    @abstractmethod
    def _between_epochs(self) -> None:
        """Called again and again while the query runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._health.report(self._settings.lane, ready=False, reason="not running")
        self._closing.close()

    def say(self, state: str, error: str | None = None, waits_for: str | None = None) -> None:
        """Record the lane's state in metrics and target, for `surelane status`; a failure is only logged, and
        `_show_state` records it later."""
        is_recorded, self._say_again_at = True, time.monotonic() + SAY_AGAIN_SECONDS
        for writer in self._writers.values():
            self._metrics[writer.name].set_state(state)
            try:
                with writer.engine.begin() as connection:
                    if _may_set_state(connection, writer):
                        writer.ledger.set_state(connection, state, error, waits_for)
            except SQLAlchemyError as failure:
                log.warning("state not recorded", lane=writer.name, state=state, because=str(failure).splitlines()[0])
                is_recorded = False
        if is_recorded:
            self._state, self._say_again_at = (state, waits_for), 0.0

    def _begin(self, stop: threading.Event, *, until_caught_up: bool) -> None:
        """Note what the run is for."""
        self._stop, self._until_caught_up = stop, until_caught_up
        if (rate := self._settings.limits.messages_per_second) is not None:
            self._size.bound(rate)

    def _watch_servers(self) -> None:
        """Have a thread report waits for a database, from now on."""
        watch = ServerWatch(self._link, self._writers, self._settings.guard.message_timeout.total_seconds())
        self._closing.callback(watch.stop)
        watch.start()

    def _start_threads(self, monitor: Monitor) -> None:
        """Start what ends pending epochs, and the monitor; the lanes are open."""
        self._closing.callback(self._end_pending)
        self._closing.callback(self._watcher.stop)
        self._watcher.start()
        self._monitor = monitor
        self._closing.callback(monitor.stop)
        monitor.read_orders()
        monitor.start()

    def _say_running(self) -> None:
        """Record it once: before the first epoch, or when the query has started, whichever is earlier."""
        if self._state[0] == "running":
            return
        self.started = True
        self.say("running")
        self._health.report(self._settings.lane, ready=True, reason="running")

    def _start_query(self, start: Offsets, *, until_caught_up: bool) -> StreamingQuery:
        """Start the query; it continues from the checkpoint."""
        with self._writing:
            if self._error is not None and not isinstance(self._error, StopRequested):
                raise self._error  # of a thread that went ahead: the lanes have to be opened anew
            self._error = self._early = self._query = None
            self._in_epoch.clear()
        # until the JVM collects the query PySpark keeps the callback, and what it raised with all its frames: not the
        # run with its connections, too
        this = weakref.ref(self)

        def on_epoch(rows: DataFrame | None, number: int) -> None:
            run = this()
            assert run is not None, "the query is stopped before the run ends"
            failure = run._on_epoch(rows, number)
            del run
            if failure is not None:
                raise RuntimeError(failure)

        self._size.begin()
        self._before_query()
        self._query = self._start_writer(start, on_epoch, self._size.begin(), until_caught_up)
        return self._query

    @abstractmethod
    def _before_query(self) -> None:
        """Called before each start of the query, with the size that its epochs have so far."""

    def _stop_query(self) -> None:
        if self._query is not None:
            self._query.stop()

    def _send_dead_letters(self) -> None:
        """Start the sender; it stops after query, watcher and monitor, once no prepared transaction locks an entry."""
        config = self._settings.guard.dead_letter
        if config is not None:
            letters = DeadLetterSender(self._settings, config, self._writers, self._metrics)
            self._closing.callback(letters.stop)
            letters.start()

    def _is_complete(self, epoch: int) -> bool:
        with spark_errors():  # storage that is briefly unavailable is a retry
            return self._checkpoint.written.is_complete(epoch)

    def _on_epoch(self, rows: DataFrame | None, number: int) -> str | None:
        """Process an epoch, on a thread of Py4J. Returns the error, with which the query has to end."""
        try:
            while not self._begun(rows, number):
                pass  # held between the gate and the lock
            self._count()
            self._go_ahead()
        except BaseException as error:  # noqa: BLE001  # raised by the thread that watches the query
            self._error = error
            return f"{type(error).__name__}: {error}"
        finally:
            self._in_epoch.clear()
        return None

    def _count(self) -> None:
        """Note that an epoch has passed, and is perhaps pending."""
        self.epochs += 1
        self._watcher.notice()

    def _begun(self, rows: DataFrame | None, number: int) -> bool:
        """Process the epoch once it may begin; False: it has to wait again. One that was begun early is waited for
        only. Raises StopRequested."""
        may_begin = self._begun_last == number or self._gate.wait()
        with self._writing:
            if self._passed_early(number):
                return True
            if self._error is not None:  # of another thread: the lanes have to be opened anew
                raise self._error
            if not may_begin:
                raise StopRequested
            if self._is_held():
                return False
            self._check_tables()
            self._in_epoch.set()
            self._begun_last = number
            if (error := self._failure(rows, number)) is not None:
                raise error
            return True

    def _passed_early(self, number: int) -> bool:
        """Whether the epoch was begun early. Raises what it has failed with."""
        if self._early is None or self._early[0] != number:
            return False
        (_, error), self._early = self._early, None
        if error is not None:
            raise error
        return True

    def _begin_early(self, number: int, done: Callable[[], None] = lambda: None) -> bool:
        """Process an epoch that is planned, and that Spark has not called the lane with yet, unless it has to wait;
        whether it has begun. By any thread. Its error is raised when Spark calls. `done` is called with the lock, when
        it has passed or failed."""
        if not self._writing.acquire(blocking=False):  # begun, or a release is under way
            return False
        try:
            if number <= self._begun_last or self._error is not None or not self._gate.is_open:
                return False
            self._check_tables()
            self._in_epoch.set()
            self._begun_last = number
            self._early = number, self._failure(None, number)
            done()
            return True
        except Exception as error:  # noqa: BLE001  # raised again when Spark calls
            log.debug("not begun early", epoch=number, because=str(error))
            return False
        finally:
            self._writing.release()

    def _failure(self, rows: DataFrame | None, number: int) -> BaseException | None:
        """Process an epoch; returns what it failed with, which is known to other threads once they have the lock."""
        try:
            self._process(rows, number)
        except BaseException as error:  # noqa: BLE001  # raised by the thread that watches the query
            self._error = error
            return error
        return None

    def _is_paused(self) -> bool:
        return self._monitor is not None and self._monitor.pause is not None

    def _waits_for(self) -> str | None:
        """The standby that is too far behind."""
        lag = self._monitor.replica_lag if self._monitor is not None else None
        return None if lag is None else lag.waits_for

    def _is_held(self) -> bool:
        return self._is_paused() or self._waits_for() is not None

    def _show_state(self, monitor: Monitor) -> None:
        """Record that the lanes are paused or wait, once no epoch is in process or prepared, and the end of that."""
        pause, waits_for = monitor.pause, self._waits_for()
        if pause is not None and self._until_caught_up:
            raise Refused(f"the lane is {pause}: it cannot catch up", hint="surelane resume, then this again")
        if pause is not None:
            state, because = (PAUSED, pause.token), str(pause)
        elif waits_for is not None:
            state, because = (WAITING, waits_for), waits_for
        else:
            state, because = ("running", None), None
        if state == self._state or time.monotonic() < self._say_again_at:
            return
        if because is None:
            log.info("resumed" if self._state[0] in (PAUSED, WAITING) else "running")
            self.say(*state)
        elif self._writing.acquire(blocking=False):
            try:
                if not self._pending.waiting:
                    log.info(state[0], because=because)
                    self.say(state[0], waits_for=state[1])
            finally:
                self._writing.release()

    def _watch(self, query: StreamingQuery, monitor: Monitor) -> None:
        while query.isActive:
            if self._watcher.failure or monitor.failure:
                query.stop()
                break
            if monitor.stop_because is not None and not self._stop.is_set():
                log.info("stopping at the end of the epoch", because=monitor.stop_because)
                self._stop.set()
            if (self._stop.is_set() and self._at_rest()) or (self._size.is_off and self._is_settled()):
                query.stop()
                break
            self._show_state(monitor)
            self._between_epochs()
            time.sleep(LOOK_SECONDS)
        if failure := self._watcher.failure or monitor.failure:
            raise failure
        if self._error is not None and not isinstance(self._error, StopRequested):
            raise self._error
        if self._error is None:
            query.awaitTermination()  # raises the Java error; `query.exception()` has only its text

    def _is_settled(self) -> bool:
        """Whether every planned epoch is complete: none is pending, and none will be replayed."""
        if self._pending.waiting:
            return False
        with spark_errors():
            planned = self._checkpoint.written.last_planned()
            return planned is None or self._checkpoint.written.is_complete(planned)

    def _at_rest(self) -> bool:
        """Whether no epoch is in process, and none waits for its checkpoint entry."""
        return not self._in_epoch.is_set() and not self._pending.waiting

    def _end_pending(self) -> None:
        """End prepared epochs, which would hold locks until the next start."""
        try:
            if self._query is None or not self._query.isActive:
                self._pending.end()
        except (SurelaneError, Py4JError) as error:
            log.warning("left for the next start to settle", because=str(error).splitlines()[0])


def _may_set_state(connection: Connection, writer: LaneWriter) -> bool:
    """Whether the lane has no other writer, whose state this one would overwrite."""
    if writer.generation:
        return writer.ledger.newest_generation(connection) == writer.generation
    return lock_holder(connection, writer.name) is None
