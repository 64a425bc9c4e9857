"""One run: open the lanes, start the query, watch it until it ends."""

import threading
import time
import weakref
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import structlog
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from app.archive.reader import ArchiveReader
from app.config.settings import Settings
from app.db.locks import lock_holder
from app.db.sqlstate import translated
from app.dispatch.lane_stage import StagedSpan
from app.dispatch.pool import Pool
from app.errors import Contended, Refused, SurelaneError
from app.kafka.broker import Broker
from app.kafka.unread import UnreadMessages
from app.lane.lane import Lane, Stager
from app.ledger.pauses import PAUSED
from app.ledger.shadow_copies import ShadowCopies, in_copy
from app.metrics.health import Health
from app.metrics.lane_metrics import AllMetrics
from app.model.arrow import compute
from app.model.death import Death
from app.model.offsets import Offsets, Span, TopicPartition
from app.protocol.checkpoint_watcher import CheckpointWatcher
from app.protocol.fencing import open_writers
from app.protocol.pending_epochs import PendingEpochs
from app.source.messages import TaskMessages
from app.source.size import EpochSize
from app.source.stream import start_query
from app.spark.checkpoint import Checkpoint
from app.spark.job_errors import spark_errors
from app.stage.receipt import last_messages
from app.supervisor.link import Link
from app.worker.archive_backfill import Filling
from app.worker.dead_letter_sender import DeadLetterSender
from app.worker.epoch_forecast import EpochForecast
from app.worker.epoch_gate import EpochGate
from app.worker.epoch_source import EpochSource
from app.worker.lane_factory import (
    add_writers,
    check_total,
    commit_at_once,
    known_partitions,
    removed_partitions,
)
from app.worker.lane_writer import LaneWriter
from app.worker.log_identity import Asked, LogIdentity, check_last
from app.worker.monitor import Monitor
from app.worker.open_lanes import OpenLanes
from app.worker.periodic_savepoints import PeriodicSavepoints
from app.worker.replica_lag import WAITING
from app.worker.server_watch import ServerWatch
from app.worker.stored_message_decoder import StoredMessages

log = structlog.get_logger()

#: seconds between two checks of query, watcher and stop request
LOOK_SECONDS = 0.1
#: seconds that a stopping lane waits for the checkpoint entry of a prepared epoch
STOP_WAIT_SECONDS = 30.0


class StopRequested(Exception):  # no error: the query stops before the epoch begins
    """The lane has a stop request, or the epoch size is about to change."""


class StreamingRun:
    """Opens lanes, runs them, closes them. `writers` outlives the run and keeps each lane's generation."""

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
        removable: Collection[str] = (),
    ) -> None:
        """`death`: of the previous worker; `pool`: the tasks that stage; `removable`: topics that the lanes may stop
        reading."""
        self._removable = removable
        self._death, self._pool = death, pool
        self._settings, self._spark, self._writers = settings, spark, writers
        self._health, self._metrics, self._link = health, metrics, link
        self._broker = Broker(settings.source)
        self._size = EpochSize(settings.epoch)
        self._foresight = EpochForecast(self._broker, self._size, settings, pool.tasks)
        self._messages = TaskMessages(pool, settings.lane, link.still, self._foresight.after, self._is_suspicious)
        self._checkpoint = Checkpoint(spark, settings.checkpoint)
        self._identity: LogIdentity
        #: leader epoch of the message before each position
        self._terms: dict[TopicPartition, int] = {}
        self._lanes = OpenLanes(settings, metrics, pool, link)
        self._stored: dict[TopicPartition | None, StoredMessages] = {}
        self._pending = PendingEpochs(self._lanes.committers, self._is_complete)
        self._watcher = CheckpointWatcher(self._pending)
        self._closing = ExitStack()
        self._closing.callback(self._broker.close)
        self._closing.callback(self._lanes.close)
        self._closing.callback(self._messages.close)
        self._stop, self._until_caught_up = threading.Event(), False
        self._in_epoch = threading.Event()
        self._monitor: Monitor | None = None
        self._gate = EpochGate(settings.limits, self._is_held, lambda: self._stop.is_set() or self._size.is_off)
        #: the state that was recorded last, and what the lanes wait for in it
        self._state: tuple[str, str | None] = ("", None)
        #: schema that the lanes write in place of the configured ones
        self._copy_schema: str | None = None
        #: lock on the lanes: Spark's thread holds it during an epoch, this thread for a release between two epochs
        self._writing = threading.Lock()
        self._query: StreamingQuery | None = None
        self._error: BaseException | None = None
        #: epochs that this run has processed
        self.epochs = 0
        #: whether lanes were opened and the query started
        self.started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._health.report(self._settings.lane, ready=False, reason="not running")
        self._closing.close()

    def say(self, state: str, error: str | None = None, waits_for: str | None = None) -> None:
        """Record the lane's state in metrics and target, for `surelane status`; a failure is only logged."""
        self._state = state, waits_for
        for writer in self._writers.values():
            self._metrics[writer.name].set_state(state)
            try:
                with writer.engine.begin() as connection:
                    if _may_set_state(connection, writer):
                        writer.ledger.set_state(connection, state, error, waits_for)
            except SQLAlchemyError as failure:
                log.warning("state not recorded", lane=writer.name, state=state, because=str(failure).splitlines()[0])

    def run(self, stop: threading.Event, *, until_caught_up: bool) -> None:
        """Run until `stop` is set or, with `until_caught_up`, until all messages that Kafka has now are applied."""
        self._stop, self._until_caught_up = stop, until_caught_up
        if (rate := self._settings.limits.messages_per_second) is not None:
            self._size.bound(rate)
        start = self._open()
        watch = ServerWatch(self._link, self._writers, self._settings.guard.message_timeout.total_seconds())
        self._closing.callback(watch.stop)
        watch.start()
        while self._fill() or self._needs_smaller_epochs():
            start = self._open_again()
        self._send_dead_letters()
        self._make_savepoints()
        self._closing.callback(self._end_pending)
        self._closing.callback(self._watcher.stop)
        self._watcher.start()
        self._monitor = monitor = Monitor(self._settings, self._writers, self._metrics, self._pool)
        self._closing.callback(monitor.stop)
        monitor.read_orders()
        monitor.start()
        reached = self._lanes.read
        first = start.updated(self._lanes.position)
        self._messages.go_to(first, self._terms)
        for lane in self._lanes:
            if lane.stage is not None:
                lane.stage.go_to(first, self._terms)
        self._size.sample(self._broker, start.updated(reached))
        self._closing.callback(self._stop_query)
        goal = self._broker.ends(reached) if until_caught_up else {}
        self._stage_first(first, start.updated(reached))
        while True:
            query = self._start_query(start, until_caught_up=until_caught_up)
            self.started = True
            self.say("running")
            self._health.report(self._settings.lane, ready=True, reason="running")
            self._watch(query, monitor)
            self._pending.finish(STOP_WAIT_SECONDS)
            waits = any(lane.waits(goal) for lane in self._lanes)
            if self._stop.is_set() or not (self._size.is_off or waits):
                break
        self._release()
        self.say("stopped")

    def _start_query(self, start: Offsets, *, until_caught_up: bool) -> StreamingQuery:
        """Start the query; it continues from the checkpoint."""
        self._error = None
        # until the JVM collects the query PySpark keeps the callback, and what it raised with all its frames: not the
        # run with its connections, too
        this = weakref.ref(self)

        def on_epoch(_: DataFrame, number: int) -> None:
            run = this()
            assert run is not None, "the query is stopped before the run ends"
            failure = run._on_epoch(number)
            del run
            if failure is not None:
                raise RuntimeError(failure)

        self._query = start_query(
            self._spark,
            self._settings,
            start,
            on_epoch,
            most=self._size.begin(),
            until_caught_up=until_caught_up,
        )
        return self._query

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

    def _make_savepoints(self) -> None:
        if (every := self._settings.savepoints.every) is not None:
            savepoints = PeriodicSavepoints(self._settings, every, self._metrics)
            self._closing.callback(savepoints.stop)
            savepoints.start()

    def _is_complete(self, epoch: int) -> bool:
        with spark_errors():  # storage that is briefly unavailable is a retry
            return self._checkpoint.is_complete(epoch)

    def _open(self, *, anew: bool = False) -> Offsets:
        """Open the lanes; returns the start of an empty checkpoint. `anew`: see `open_writers`."""
        settings = self._settings
        topics = self._broker.topics()
        add_writers(settings, self._writers, sorted(self._broker.partitions()), self._link, self._metrics, self._pool)
        writers = list(self._writers.values())
        for writer in writers:
            self._closing.callback(writer.close)
        begin, is_later, removed = self._beginnings(writers)
        cluster, unread = self._broker.cluster_id(), UnreadMessages(self._broker)
        for writer in writers:
            if writer.archive is not None:
                writer.archive.open(cluster, {name: info.topic_id for name, info in topics.items()})
        opened = open_writers(
            writers,
            self._checkpoint,
            begin,
            settings.mode.value,
            anew=anew or is_later or bool(removed),
            removed=removed,
        )
        self._copy_schema = self._find_copy(writers[0])
        ids = {name: info.topic_id for name, info in topics.items()}
        self._identity = LogIdentity(self._broker, self._messages, settings.lane, cluster, ids)
        self._terms = {}
        for writer in writers:
            writer.pin(cluster, ids)
            self._terms |= check_last(self._broker, writer)
            publish = partial(self._publish, writer.partition)
            self._stored[writer.partition] = stored = StoredMessages(self._messages.stored, self._broker.messages)
            self._lanes.open(writer, stored, publish, self._death, unread)
        return opened.start

    def _find_copy(self, writer: LaneWriter) -> str | None:
        """Let the lanes write the shadow copy that is theirs; returns its schema, None: the configured tables."""
        settings, connection = self._settings, writer.connection
        assert connection is not None, "just opened"
        with translated(f"lane {writer.name}: looking for a shadow copy"), connection.begin():
            copy = ShadowCopies(settings.target.db_schema).find(connection, settings.lane)
        self._lanes.settings = in_copy(settings, copy)
        return copy.schema_now if copy is not None else None

    def _beginnings(self, writers: list[LaneWriter]) -> tuple[Offsets, bool, set[TopicPartition]]:
        """Where partitions begin that the ledger has no position of; whether one was added behind offset 0; those of
        topics that are not read any more. Raises Refused where such a topic may not be left out."""
        known, source = known_partitions(writers), self._settings.source
        if known is None:
            return self._broker.start_offsets(source.start), False, set()
        removed = {tp for tp in known if source.topics and tp.topic not in source.topics}
        self._check_removable(removed, known)
        added = self._broker.partitions() - known
        earlier = removed_partitions(writers).only(added) if added else Offsets()
        new = added - set(earlier)
        begin = earlier.updated(self._broker.added_offsets(source.start, new) if new else Offsets())
        return begin, any(begin.values()), removed

    def _check_removable(self, removed: set[TopicPartition], known: set[TopicPartition]) -> None:
        lane, topics = self._settings.lane, sorted({tp.topic for tp in removed})
        if removed and removed == known:
            raise Refused(
                f"lane {lane}: source.topics names none of the topics that the ledger has positions of: "
                f"{', '.join(topics)}",
                hint="a lane of another name begins without them",
            )
        if refused := [name for name in topics if name not in self._removable]:
            words = " ".join(f"--allow-non-restored topics:{name}" for name in refused)
            raise Refused(
                f"lane {lane}: the ledger has a position of {', '.join(refused)}, which source.topics does not name",
                hint=f"name it again; or surelane run {words}: the lane goes on without it, and keeps its position",
            )

    def _open_again(self) -> Offsets:
        """Open the lanes with a new checkpoint: after filling, or for smaller epochs than the planned one."""
        anew, self._death = self._needs_smaller_epochs(), None  # the death is on record
        for writer in self._writers.values():
            writer.close()
        return self._open(anew=anew)

    def _needs_smaller_epochs(self) -> bool:
        """Whether the planned, incomplete epoch of the checkpoint exceeds the guard's memory limit. Bounds the size of
        all later epochs by that limit."""
        limits = [limit for writer in self._writers.values() if (limit := writer.guard.memory_limit) is not None]
        if not limits:
            return False
        self._size.bound(min(limits))
        planned = self._checkpoint.last_planned()
        if planned is None or self._checkpoint.is_complete(planned):
            return False
        return self._checkpoint.span(planned).size > min(limits)

    def _fill(self) -> bool:
        """Apply from the archive what Kafka no longer has. Returns whether there was any; see `archive_backfill`."""
        config, is_filled = self._settings.archive, False
        for writer in self._writers.values() if config is not None else ():
            assert config is not None
            lane, stored = self._lanes.of(writer.partition), self._stored[writer.partition]
            lows = {tp: mark.low for tp, mark in self._broker.watermarks(lane.position).items()}
            gone = {tp: low for tp, low in lows.items() if lane.position[tp] < low}
            if not gone:
                continue

            def go_on(stored: StoredMessages = stored) -> None:
                stored.forget()
                if self._stop.is_set():
                    raise StopRequested

            commit_at_once(lane, writer)
            reader = ArchiveReader(Path(config.path), writer.name)
            Filling(lane, reader, stored, self._settings.epoch.max_messages, go_on).run(gone)
            is_filled = True
        return is_filled

    def _publish(self, partition: TopicPartition | None) -> None:
        self._lanes.of(partition).publish()

    def _on_epoch(self, number: int) -> str | None:
        """Process an epoch, on a thread of Py4J. Returns the error, with which the query has to end."""
        try:
            while not self._begun(number):
                pass  # held between the gate and the lock
            self.epochs += 1
            self._watcher.notice()
        except BaseException as error:  # noqa: BLE001  # raised by the thread that watches the query
            self._error = error
            return f"{type(error).__name__}: {error}"
        finally:
            self._in_epoch.clear()
        return None

    def _begun(self, number: int) -> bool:
        """Process the epoch once it may begin; False: it has to wait again. Raises StopRequested."""
        if not self._gate.wait():
            raise StopRequested
        with self._writing:
            if self._is_held():
                return False
            self._check_tables()
            self._in_epoch.set()
            self._process(number)
            return True

    def _check_tables(self) -> None:
        """Raises StopRequested where another lane writes the tables now, Contended where a switch has moved them."""
        if self._monitor is None:
            return
        if self._monitor.stop_because is not None:
            raise StopRequested
        if self._monitor.copy_schema != self._copy_schema:
            raise Contended(
                f"lane {self._settings.lane}: its tables have changed their schema", hint="nothing: it opens them anew"
            )

    def _process(self, number: int) -> None:
        span = self._checkpoint.span(number)
        self._gate.begin(span.size)
        request = self._identity.of(span)

        def planned() -> pa.Table:
            rows = self._messages.epoch(span)
            request.ask()
            self._size.learn(span, rows.nbytes)
            return rows

        if lane := self._lanes.total:
            check_total(span.end)  # partitions may have been added meanwhile
            lane.process_epoch(number, span, self._source(planned, request), self._stager(lane, span, request))
        else:
            self._process_partitions(number, self._lanes.parts(span), _once(planned), request)

    def _source(self, planned: Callable[[], pa.Table], request: Asked) -> EpochSource:
        def part(span: Span) -> pa.Table:
            rows = self._messages.part(span)
            request.ask()
            return rows

        return EpochSource(planned, part, self._broker.messages, request.identified)

    def _stager(self, lane: Lane, planned: Span, request: Asked) -> Stager | None:
        """Takes staged spans of one epoch, and requests the spans of the next ones."""
        stage = lane.stage
        if stage is None:
            return None

        def staged(span: Span) -> StagedSpan | None:
            found = stage.take(span)
            if found is not None:
                request.ask(last_messages(found.receipt.lasts))
                self._size.learn(span, found.receipt.size)
                stage.ask(self._foresight.after(planned, found.receipt.end), found.receipt.size)
            return found

        return staged

    def _stage_first(self, start: Offsets, read: Offsets) -> None:
        """Request the first epoch's staging while Spark plans that epoch."""
        lane = self._lanes.total
        if lane is not None and lane.stage is not None:
            self._size.begin()
            lane.stage.ask(self._foresight.first(start, read))

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
        if state == self._state:
            return
        if because is None:
            log.info("resumed")
            self.say(*state)
        elif self._writing.acquire(blocking=False):
            try:
                if not self._pending.waiting:
                    log.info(state[0], because=because)
                    self.say(state[0], waits_for=state[1])
            finally:
                self._writing.release()

    def _is_suspicious(self) -> bool:
        suspicious = any(writer.guard.is_suspicious for writer in self._writers.values())
        return suspicious or any(lane.has_paused_tables for lane in self._lanes)

    def _process_partitions(
        self, number: int, parts: list[tuple[Lane, Span]], rows: Callable[[], pa.Table], request: Asked
    ) -> None:
        """Process one lane for each partition in parallel. Raises the first failure, once all lanes have finished."""

        def one(lane: Lane, own: Span) -> None:
            (tp,) = own.end
            mine = self._source(lambda: rows().filter(compute.equal(rows()["partition"], tp.partition)), request)
            lane.process_epoch(number, own, mine, self._stager(lane, own, request))

        with ThreadPoolExecutor(max_workers=max(1, len(parts))) as pool:
            for done in [pool.submit(one, *part) for part in parts]:
                done.result()

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
            self._release()
            time.sleep(LOOK_SECONDS)
        if failure := self._watcher.failure or monitor.failure:
            raise failure
        if self._error is not None and not isinstance(self._error, StopRequested):
            raise self._error
        if self._error is None:
            query.awaitTermination()  # raises the Java error; `query.exception()` has only its text

    def _release(self) -> None:
        """Apply requested releases between two epochs, without waiting for the next message."""
        wanting = [lane for lane in self._lanes if lane.wants_release]
        if not wanting or self._stop.is_set() or self._is_paused() or not self._writing.acquire(blocking=False):
            return
        try:
            if self._is_settled():
                for lane in wanting:
                    lane.release()
        finally:
            self._writing.release()

    def _is_settled(self) -> bool:
        """Whether every planned epoch is complete: none is pending, and none will be replayed."""
        if self._pending.waiting:
            return False
        with spark_errors():
            planned = self._checkpoint.last_planned()
            return planned is None or self._checkpoint.is_complete(planned)

    def _at_rest(self) -> bool:
        """Whether no epoch is in process, and none waits for its checkpoint entry."""
        return not self._in_epoch.is_set() and not self._pending.waiting

    def _end_pending(self) -> None:
        """End prepared epochs, which would hold locks until the next start."""
        try:
            if self._query is not None and not self._query.isActive:
                self._pending.end()
        except (SurelaneError, Py4JError) as error:
            log.warning("left for the next start to settle", because=str(error).splitlines()[0])


def _once(read: Callable[[], pa.Table]) -> Callable[[], pa.Table]:
    """`read`, called once by the first thread; the others wait for its result."""
    reading = threading.Lock()
    result: list[pa.Table] = []

    def get() -> pa.Table:
        with reading:
            if not result:
                result.append(read())
        return result[0]

    return get


def _may_set_state(connection: Connection, writer: LaneWriter) -> bool:
    """Whether the lane has no other writer, whose state this one would overwrite."""
    if writer.generation:
        return writer.ledger.newest_generation(connection) == writer.generation
    return lock_holder(connection, writer.name) is None
