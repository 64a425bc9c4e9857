"""One run: open the lanes, start the query, watch it until it ends."""

import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from app import failpoint
from app.archive.reader import ArchiveReader
from app.background import begun
from app.config.settings import Settings
from app.db.sqlstate import translated
from app.dispatch.lane_stage import StagedSpan
from app.dispatch.pool import Pool
from app.errors import Contended, EnvironmentMissing, MessagesGone, Refused, SparkGone, Unreachable
from app.kafka.broker import ids_of
from app.kafka.unread import UnreadMessages
from app.lane.lane import Lane, Stager
from app.ledger.shadow_copies import ShadowCopies, in_copy
from app.metrics.health import Health
from app.metrics.lane_metrics import AllMetrics
from app.model.arrow import compute
from app.model.death import Death
from app.model.last import LastMessages
from app.model.offsets import Offsets, Span, TopicPartition
from app.protocol.committer import Committer
from app.protocol.fencing import open_writers
from app.rollup.keeping import keep as keep_rollups
from app.source.messages import TaskMessages
from app.source.range_cutter import first_of
from app.source.stream import start_query
from app.spark.session import ComingSession
from app.stage.receipt import last_messages
from app.supervisor.link import Link
from app.worker.archive_backfill import Filling
from app.worker.epoch_forecast import EpochForecast
from app.worker.epoch_source import EpochSource
from app.worker.going_ahead import AheadStep, GoingAhead
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
from app.worker.planned_epochs import PlannedEpochs
from app.worker.spark_run import LOOK_SECONDS, STOP_WAIT_SECONDS, OnEpoch, SparkRun, StopRequested
from app.worker.stored_message_decoder import StoredMessages
from app.worker.unplanned import Unplanned, rest

#: longest time that an epoch of Spark stays open while the lane goes ahead: Spark makes no plans meanwhile
OPEN_SECONDS = 5.0
#: longest time that the query's start waits for the first epoch: both need the processors
FIRST_SECONDS = 2.0
#: longest time that it waits for a backlog, of a lane that writes the entries itself meanwhile
BACKLOG_SECONDS = 60.0


class StreamingRun(SparkRun):
    """Opens lanes, runs them, closes them."""

    def __init__(
        self,
        settings: Settings,
        spark: ComingSession,
        writers: dict[str, LaneWriter],
        health: Health,
        metrics: AllMetrics,
        link: Link,
        death: Death | None,
        pool: Pool,
        removable: Collection[str] = (),
    ) -> None:
        """`pool`: the tasks that stage; `removable`: topics that the lanes may stop reading."""
        super().__init__(settings, spark, writers, health, metrics, link, death)
        self._removable, self._pool = removable, pool
        self._foresight = EpochForecast(self._broker, self._size, settings, pool.tasks)
        self._messages = TaskMessages(pool, settings.lane, link.still, self._foresight.after, self._is_suspicious)
        self._identity: LogIdentity
        #: leader epoch of the message before each position
        self._terms: dict[TopicPartition, int] = {}
        self._lanes = OpenLanes(settings, metrics, pool, link)
        self._stored: dict[TopicPartition | None, StoredMessages] = {}
        self._closing.callback(self._lanes.close)
        self._closing.callback(self._messages.read_nothing)
        self._planned: PlannedEpochs | None = None
        self._unplanned = Unplanned(self._broker, settings.lane)
        self._goes_ahead = settings.goes_ahead
        self._ahead: GoingAhead | None = None
        #: the end of what Spark has planned
        self._planned_end = Offsets()
        #: schema that the lanes write in place of the configured ones
        self._copy_schema: str | None = None

    def run(self, stop: threading.Event, *, until_caught_up: bool) -> None:
        """Run until `stop` is set or, with `until_caught_up`, until all messages that Kafka has now are applied."""
        self._begin(stop, until_caught_up=until_caught_up)
        start = self._open()
        self._watch_servers()
        while self._fill() or self._needs_smaller_epochs():
            start = self._open_again()
        self._send_dead_letters()
        self._make_savepoints()
        monitor = Monitor(self._settings, self._writers, self._metrics, self._pool)
        self._start_threads(monitor)
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
            self._notice_planned()
            self._say_running()
            self._watch(query, monitor)
            self._pending.finish(STOP_WAIT_SECONDS)
            waits = any(lane.waits(goal) for lane in self._lanes)
            if self._stop.is_set() or not (self._size.is_off or waits):
                break
        if self._ahead is not None:
            self._ahead.stop()
            self._ahead.check()
        self._release()
        self.say("stopped")

    def _committers(self) -> list[Committer]:
        return self._lanes.committers()

    def _start_writer(self, start: Offsets, on_epoch: OnEpoch, most: int, until_caught_up: bool) -> StreamingQuery:
        each = partial(on_epoch, None)
        return start_query(self._spark.get(), self._settings, start, each, most=most, until_caught_up=until_caught_up)

    def _between_epochs(self) -> None:
        if self._ahead is not None:
            self._ahead.check()  # Spark may have nothing to call the lane with
        self._release()

    def _make_savepoints(self) -> None:
        if (every := self._settings.savepoints.every) is not None:
            savepoints = PeriodicSavepoints(self._settings, every, self._metrics)
            self._closing.callback(savepoints.stop)
            savepoints.start()

    def _open(self, *, anew: bool = False) -> Offsets:
        """Open the lanes; returns the start of an empty checkpoint. `anew`: see `open_writers`."""
        settings = self._settings
        topics = self._broker.topics()
        ids = ids_of(topics)
        add_writers(settings, self._writers, sorted(self._broker.partitions()), self._link, self._metrics, self._pool)
        writers = list(self._writers.values())
        for writer in writers:
            self._closing.callback(writer.close)
        begin, is_later, removed = self._beginnings(writers)
        cluster, unread = self._broker.cluster_id(), UnreadMessages(self._broker)
        self._spark.get()  # a lane that another process runs is not taken over without it
        for writer in writers:
            if writer.archive is not None:
                writer.archive.open(cluster, ids)
        opened = open_writers(
            writers,
            self._checkpoint,
            begin,
            settings.mode.value,
            anew=anew or is_later or bool(removed),
            removed=removed,
        )
        self._copy_schema = self._find_copy(writers[0])
        first = writers[0].connection
        assert first is not None, "just opened"
        keep_rollups(first, settings)
        self._identity = LogIdentity(self._broker, self._messages, settings.lane, cluster, topics)
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

    def _publish(self, partition: TopicPartition | None, commit_seconds: float) -> None:
        self._lanes.of(partition).publish(commit_seconds)

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

    def _process(self, rows: DataFrame | None, number: int) -> None:
        del rows
        span = self._checkpoint.written.span(number)
        if not span.goes_on:
            raise MessagesGone.of(f"from {span.start} on, where Kafka ends at {span.end}", lane=self._settings.lane)
        if (lane := self._lanes.total) is not None and self._goes_ahead:
            self._planned_end = span.end
            span, number = rest(span, lane.read), lane.next_number
            if not span.size:
                return
        self._apply_span(span, number)

    def _apply_span(self, span: Span, number: int) -> None:
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

    def _go_ahead(self) -> None:
        if self._ahead is not None and not self._stop.is_set():
            self._ahead.follow(0 if self._is_far_ahead() else OPEN_SECONDS)

    def _is_far_ahead(self) -> bool:
        """Whether Spark needs more than one epoch to plan what is applied: it would have to plan all that before the
        lane could leave anything to it."""
        lane = self._lanes.total
        return lane is not None and Span(start=self._planned_end, end=lane.read).size > self._size.messages

    def _step_ahead(self) -> AheadStep:
        """Apply what Kafka has behind what the lane has read."""
        lane = self._lanes.total
        if lane is None or (found := self._unplanned_span(lane)) is None or found.size > self._size.messages:
            return AheadStep.LEFT
        if not found.size:
            return AheadStep.NOTHING
        with self._writing:
            if self._error is not None or not self._gate.is_open:
                return AheadStep.LEFT
            span = rest(found, lane.read)  # an epoch of Spark may have come in between
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

    def _unplanned_span(self, lane: Lane) -> Span | None:
        """What Kafka has behind what the lane has read; None: that is left to Spark's epochs."""
        if self._stop.is_set() or self._size.is_off or lane.wants_release or self._is_suspicious():
            return None
        try:
            found = self._unplanned.span(lane.read)
        except (Unreachable, EnvironmentMissing):
            return None  # Spark asks by itself
        return None if self._identity.has_more(lane.read) else found

    def _source(self, planned: Callable[[], pa.Table], request: Asked) -> EpochSource:
        def part(span: Span) -> pa.Table:
            rows = self._messages.part(span)
            request.ask()
            return rows

        def identified(span: Span) -> LastMessages:
            found = request.identified(span)
            if self._ahead is not None:
                self._unplanned.ask(span.end)  # answered when the epoch is committed
            return found

        return EpochSource(planned, part, self._broker.messages, identified)

    def _stager(self, lane: Lane, planned: Span, request: Asked) -> Stager | None:
        """Takes staged spans of one epoch, and requests the spans of the next ones."""
        stage = lane.stage
        if stage is None:
            return None

        def staged(span: Span) -> StagedSpan | None:
            found = stage.take(span)
            if found is not None:
                self._messages.read_nothing()
                request.ask(last_messages(found.receipt.lasts))
                self._size.learn(span, found.receipt.size)
                stage.ask(self._foresight.after(planned, found.receipt.end), found.receipt.size)
            return found

        return staged

    def _notice_planned(self) -> None:
        """Begin the epochs from now on as soon as Spark has planned them."""
        if self._planned is None:
            self._planned = PlannedEpochs(self._entries("offsets"), self._begin_planned, self._spark.is_gone)
            self._closing.callback(self._planned.stop)
            self._planned.start()

    def _begin_planned(self, number: int) -> None:
        self._begin_early(number, partial(failpoint.reach, "done-early"))

    def _before_query(self) -> None:
        """Have the lane begin before Spark starts the query."""
        if self._until_caught_up or not self._settings.begins_early:
            return
        self._release()  # an epoch may have to do it; that is left to the query's
        if not self.started:
            self._apply_backlog()
        if not self._goes_ahead:
            return
        if self._ahead is None:
            self._planned_end = self._lanes.read
            self._ahead = GoingAhead(self._step_and_let_go, self._spark.is_gone)
            self._closing.callback(self._ahead.stop)
        self._ahead.follow(FIRST_SECONDS)

    def _apply_backlog(self) -> None:
        """Apply the epochs of the backlog. The lane writes their entries in place of the query, which goes on behind
        them."""
        until, backlog = time.monotonic() + BACKLOG_SECONDS, self._backlog()
        while time.monotonic() < until and self._may_go_on() and (number := next(backlog, None)) is not None:
            if not self.started:
                self._say_running()
            if not self._applied(number):  # a pause, say: the query replays it, and waits where that is seen
                break
            self._size.begin()  # no query has another size
        self._pending.finish(STOP_WAIT_SECONDS)
        if self._stop.is_set():
            raise StopRequested

    def _applied(self, number: int) -> bool:
        """Process a planned epoch, and complete it; whether it has begun."""
        passing = begun(partial(self._begin_early, number))
        while not passing.done():
            if self._spark.is_gone():  # no task answers
                raise SparkGone
            wait([passing], LOOK_SECONDS)
        self._in_epoch.clear()
        if not passing.result():
            return False
        self._passed_early(number)
        self._checkpoint.complete(number)
        self._count()
        return True

    def _may_go_on(self) -> bool:
        """Whether there is nothing that the thread which watches the query has to see: a pause, an order to stop, a
        failure of another thread."""
        monitor = self._monitor
        is_well = monitor is None or (monitor.failure is None and monitor.stop_because is None)
        return is_well and self._watcher.failure is None and self._gate.is_open

    def _backlog(self) -> Iterator[int]:
        """The number of the epoch that the checkpoint has planned and not completed, then of those that Kafka has
        messages for; each is planned when its turn comes. The last is smaller than an epoch may be; a lane that goes
        ahead of its checkpoint applies such messages without an entry."""
        entries = self._checkpoint.written
        number = entries.last_planned()
        if number is not None and not entries.is_complete(number):
            yield number
        while (lane := self._lanes.total) is not None and (found := self._unplanned_span(lane)) is not None:
            number = 0 if number is None else number + 1
            left = entries.span_to(number, found.end)
            is_last = left.size < self._size.messages
            if not left.size or (is_last and self._goes_ahead):
                return
            self._checkpoint.plan(number, first_of(left, self._size.messages).end)
            yield number
            if is_last:
                return

    def _step_and_let_go(self) -> AheadStep:
        try:
            return self._step_ahead()
        finally:
            if self._ahead is not None and (self._query is None or self._is_far_ahead()):
                self._ahead.let_go()

    def _stage_first(self, start: Offsets, read: Offsets) -> None:
        """Request the first epoch's staging before that epoch is planned."""
        lane = self._lanes.total
        if lane is not None and lane.stage is not None:
            self._size.begin()
            lane.stage.ask(self._foresight.first(start, read))

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
