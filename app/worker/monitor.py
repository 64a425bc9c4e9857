"""Monitors running lanes: lag, prepared transactions, standbys, whether lane and topic are unchanged, and requests."""

import threading
import time
from collections.abc import Iterable, Mapping

import structlog
from sqlalchemy import Connection, Engine

from app.config.on_skip import OnSkip, SkipPolicy
from app.config.settings import BreakerSettings, Settings
from app.db.engine import make_engine
from app.db.prepared import prepared, slots
from app.db.sqlstate import translated
from app.dispatch.pool import Pool
from app.errors import SurelaneError, Verdict
from app.kafka.broker import Broker
from app.kafka.lag import measure
from app.kafka.replayable import replayable
from app.ledger.pauses import Pause, Pauses
from app.ledger.shadow_copies import ShadowCopies
from app.ledger.stop_orders import StopOrders
from app.ledger.table_pauses import TablePauses
from app.metrics.lane_metrics import LaneMetrics
from app.model.gid import Gid
from app.model.offsets import Offsets, TopicPartition
from app.quarantine.quarantine import EntryState, Quarantine
from app.recover.archive_reach import archive_reach
from app.snapshot.snapshot_records import Recorded, Records
from app.verify.verification_records import Verifications
from app.worker.lane_writer import LaneWriter
from app.worker.replica_lag import ReplicaLag
from app.worker.stage_monitor import StageMonitor

log = structlog.get_logger()

#: seconds between two rounds
ROUND_SECONDS = 1.0
#: rounds between two counts of the open entries, of which there may be many
COUNT_EVERY_ROUNDS = 5
#: rounds between two counts of the breaker's messages, which have no index
BREAKER_EVERY_ROUNDS = 30
#: rounds between two checks that the newest snapshot is replayable, which read an old message
REPLAYABLE_EVERY_ROUNDS = 60


class Monitor:
    """A thread that updates the metrics every second; metrics of a server that is away keep their values."""

    def __init__(
        self,
        settings: Settings,
        writers: Mapping[str, LaneWriter],
        metrics: Mapping[str, LaneMetrics],
        pool: Pool | None = None,
    ) -> None:
        """`pool`: the tasks that stage; None: there are none."""
        schema = settings.target.db_schema
        self._stage = None if pool is None else StageMonitor(schema, writers, metrics, pool, self._engine)
        self._settings, self._writers, self._metrics = settings, writers, metrics
        self._broker = Broker(settings.source)
        self._policy = SkipPolicy(settings.guard.on_skip, settings.guard.on_skip_tables)
        self._copies = ShadowCopies(schema)
        self._stop_orders, self._pauses = StopOrders(schema, settings.lane), Pauses(schema, settings.lane)
        self._table_pauses = TablePauses(schema, settings.lane)
        self._verifications = Verifications(settings.target.db_schema)
        self._snapshots = Records(settings.target.db_schema)
        #: the newest snapshot, and the one that was checked last
        self._newest: Recorded | None = None
        self._checked: Recorded | None = None
        #: by lane; a separate application name distinguishes these sessions from those that apply
        self._engines: dict[str, Engine] = {}
        self._rounds = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        #: why the lanes have to stop at the epoch's end; None: they go on
        self.stop_because: str | None = None
        #: schema of the shadow copy that the lanes have to write; None: the configured tables
        self.copy_schema: str | None = None
        #: None: the lanes may begin epochs
        self.pause: Pause | None = None
        #: of the target's standbys; None: the lanes wait for none
        limit = settings.limits.target_replica_lag
        self.replica_lag = None if limit is None else ReplicaLag(limit.total_seconds())
        #: why the lanes have to stop: another writer took one over, or a topic is not the pinned one
        self.failure: SurelaneError | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:  # else the first look failed
            self._thread.join()
        if self._stage is not None:
            self._stage.clear()
        self._broker.close()

    def _run(self) -> None:
        while not self._stop.wait(ROUND_SECONDS):
            try:
                if self._stage is not None:
                    self._stage.look()
                self._look_at_standbys()
                self._round()
            except SurelaneError as error:
                if error.verdict is not Verdict.RETRY:
                    self.failure = error
                    return
                log.debug("monitor", because=error.message)

    def _round(self) -> None:
        topic_ids = self._broker.topic_ids()
        cluster = self._broker.cluster_id()
        partitions = self._broker.partitions()
        counts = self._rounds % COUNT_EVERY_ROUNDS == 0
        counts_recent = self._rounds % BREAKER_EVERY_ROUNDS == 0
        self._rounds += 1
        first = next(iter(self._writers), None)  # pause and orders are of all lanes together
        for writer in list(self._writers.values()):
            with translated(f"lane {writer.name}: monitoring"), self._engine(writer.name).begin() as connection:
                writer.ledger.check_newest(connection, writer.generation)
                writer.ledger.pin(connection, cluster, topic_ids)
                last = writer.ledger.last(connection)
                self._in_doubt(connection, writer.name)
                if counts:
                    self._waiting(connection, writer)
                    show_verified(connection, self._verifications, self._settings.lane, self._metrics[writer.name])
                    self._newest = self._snapshots.newest(connection, self._settings.lane)
                if counts_recent:
                    show_breaker(
                        connection, self._settings.guard.breaker, writer.quarantine, self._metrics[writer.name]
                    )
                if writer.quarantine.has_requests(connection):
                    writer.release_wanted.set()
                if writer.name == first:
                    self._read_orders(connection)
            if last is not None:
                self._lag(writer, last.span.end, partitions)
            self._metrics[writer.name].monitored(time.time())
        self._snapshot()

    def _look_at_standbys(self) -> None:
        if self.replica_lag is None:
            return
        lane = next(iter(self._writers))
        with translated(f"lane {lane}: monitoring"), self._engine(lane).begin() as connection:
            self.replica_lag.look(connection, time.monotonic())
        for writer in list(self._writers.values()):
            self._metrics[writer.name].set_replica_lag(self.replica_lag.seconds)

    def read_orders(self) -> None:
        """Read pause, order to stop and standbys, before the first round. Raises SurelaneError where the target is
        away, or where its standbys may not be seen."""
        self._look_at_standbys()
        lane = next(iter(self._writers))
        with translated(f"lane {lane}: monitoring"), self._engine(lane).begin() as connection:
            self._read_orders(connection)

    def _read_orders(self, connection: Connection) -> None:
        pause = self._pauses.find(connection)  # before the copies: a switch changes them, and ends the pause
        order = self._stop_orders.find(connection)
        successor = self._copies.successor(connection, self._settings.lane)
        if order is not None:
            self.stop_because = f"savepoint {order.savepoint}"
        elif successor is not None:
            self.stop_because = f"lane {successor.lane} writes the tables"
        copy = self._copies.find(connection, self._settings.lane)
        self.copy_schema = copy.schema_now if copy is not None else None
        # after the pause, whose end may come with that of a table's
        if self._table_pauses.are_new(connection):
            for writer in list(self._writers.values()):
                writer.release_wanted.set()
        self.pause = pause

    def _engine(self, lane: str) -> Engine:
        if lane not in self._engines:
            target = self._settings.target
            self._engines[lane] = make_engine(target.url, target.owner_role, f"surelane {lane} metrics")
        return self._engines[lane]

    def _waiting(self, connection: Connection, writer: LaneWriter) -> None:
        tables = writer.quarantine.waiting(connection)
        held = sum(one.keys for one in tables if self._policy.of(one.schema, one.table) is OnSkip.PARK)
        numbers = {
            EntryState.QUARANTINED.value: sum(one.quarantined for one in tables),
            EntryState.PARKED.value: sum(one.parked for one in tables),
        }
        self._metrics[writer.name].set_quarantine(numbers, held)

    def _snapshot(self) -> None:
        """The newest snapshot covers all lanes of the configuration; a new one is checked at once."""
        newest, due = self._newest, self._rounds % REPLAYABLE_EVERY_ROUNDS == 0
        if newest is not None and (due or newest != self._checked):
            self._checked = newest
            try:
                metrics = [self._metrics[writer.name] for writer in self._writers.values()]
                show_snapshot(self._broker, newest, metrics, archive_reach(self._settings, newest.position))
            except SurelaneError as error:  # of a deleted topic, for example: no reason to stop the lanes
                log.debug("monitor", because=error.message)

    def _in_doubt(self, connection: Connection, lane: str) -> None:
        mine = [row for row in prepared(connection) if (gid := Gid.parse(row.gid)) and gid.belongs_to(lane)]
        age = mine[0].age_seconds if mine else 0.0
        self._metrics[lane].set_in_doubt(len(mine), age)
        self._metrics[lane].set_prepared_slots(*slots(connection))

    def _lag(self, writer: LaneWriter, position: Offsets, partitions: set[TopicPartition]) -> None:
        lag = measure(self._broker, position, {tp for tp in partitions if writer.partition in (None, tp)})
        self._metrics[writer.name].set_lag(lag.by_partition, lag.seconds)


def show_snapshot(
    broker: Broker, newest: Recorded, metrics: Iterable[LaneMetrics], kept_until: Offsets | None = None
) -> None:
    """Export the newest snapshot of the target, and whether archive and Kafka still have all messages after it.
    `kept_until`: end of the archive."""
    metrics = list(metrics)
    for one in metrics:
        one.set_snapshot(newest.at, newest.position)
    there = newest.position.only(broker.partitions())
    found = replayable(broker, there, kept_until)
    whole = len(there) == len(newest.position)
    for one in metrics:
        one.set_replayable(found.ok and whole, found.headroom_seconds if whole else 0.0)


def show_breaker(
    connection: Connection, breaker: BreakerSettings | None, quarantine: Quarantine, metrics: LaneMetrics
) -> None:
    """Export how near the breaker is to stopping the lane."""
    if breaker is not None:
        metrics.set_breaker(quarantine.since(connection, breaker.minutes), breaker.messages)


def show_verified(connection: Connection, records: Verifications, lane: str, metrics: LaneMetrics) -> None:
    """Export the result of the last `surelane verify`, if any; it covers all lanes of a configuration."""
    last = records.last(connection, lane)
    if last is not None and last.at is not None:
        metrics.set_verified(last.at, last.differing)
