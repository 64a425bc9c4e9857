"""One run of a query: open it, start Spark's query, watch it until it ends."""

import datetime
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from sqlalchemy import Connection

from app.apply.target_tables import TargetTable
from app.config.settings import StartAt
from app.db.sqlstate import translated
from app.errors import Replanned, SurelaneError, Verdict
from app.kafka.broker import ids_of
from app.kafka.transactional_topic import TransactionalTopic
from app.ledger.query_states import QueryStates
from app.model.offsets import Offsets, Span
from app.protocol.committer import Committer
from app.protocol.fencing import open_writers
from app.quarantine.quarantine_writer import QuarantineWriter
from app.query import rebuilding, rescaling
from app.query.archive_source import QueryArchive
from app.query.computation import Computation, first_line, is_row_by_row, state_encoding, streams_of
from app.query.poison_search import TriedMessages, plain
from app.query.query_lane import QueryLane, Rebuild, ResultRows, condemned
from app.query.rebuilding import in_progress
from app.query.result_files import ResultFiles
from app.query.result_sink import ResultSink
from app.query.result_table import ResultTable
from app.query.result_topic import ResultTopic
from app.query.source_columns import columns_of
from app.query.staged_results import StagedPart, check_whole
from app.query.staging_table import StagingAccess
from app.query.state_shape import stored_shape
from app.source.stream import begun, kafka_stream, query_name
from app.spark.entries import by_source
from app.spark.job_errors import spark_errors
from app.spark.package import ship
from app.spark.session_options import is_local
from app.spark.state_options import ENCODING
from app.worker.lane_factory import add_writers, make_committer, quarantine_rules
from app.worker.lane_writer import LaneWriter
from app.worker.monitor import Monitor
from app.worker.result_sender import ResultSender
from app.worker.session_resources import check_channel, variables_of_tasks
from app.worker.spark_run import STOP_WAIT_SECONDS, OnEpoch, SparkRun

log = structlog.get_logger()

#: seconds between two looks at the state's figures
_FIGURES_SECONDS = 1.0
#: metric of RocksDB's state store, milliseconds; state in memory has none
_LOAD = "rocksdbLoadLatencyMs"
_SCAN, _READ_ROWS = "MicroBatchScanExec", "numOutputRows"


class QueryRun(SparkRun):
    """Opens the query, runs it, closes it. The settings are those of the query."""

    _lane: QueryLane
    _computation: Computation
    _result: DataFrame
    _whole: bool
    #: None: the rows do not go to Kafka
    _sender: ResultSender | None = None
    _figures_at = 0.0
    #: read instead of Kafka; None: Kafka has the messages
    _archive: QueryArchive | None = None
    #: whether the names and schemas of its state are still to be recorded
    _records_state = False

    @property
    def _session(self) -> SparkSession:
        return self._spark.get()

    def run(self, stop: threading.Event, *, until_caught_up: bool) -> None:
        self._begin(stop, until_caught_up=until_caught_up)
        start = self._open()
        self._watch_servers()
        self._send_dead_letters()
        if self._sender is not None:  # it stops after query and watcher: then all batches are committed
            self._closing.callback(self._sender.stop)
            self._sender.start()
        monitor = Monitor(self._settings, self._writers, self._metrics)
        self._start_threads(monitor)
        self._closing.callback(self._stop_query)
        query = self._start_query(start, until_caught_up=until_caught_up)
        self._say_running()
        self._watch(query, monitor)
        self._pending.finish(STOP_WAIT_SECONDS)
        self.say("stopped")

    def _committers(self) -> list[Committer]:
        return [self._lane.committer] if hasattr(self, "_lane") else []

    def _open(self) -> Offsets:
        """Open the query; returns the start of an empty checkpoint."""
        settings, query = self._settings, self._settings.query
        assert query is not None, "the settings are a query's"
        rescaling.check_finished(self._checkpoint, settings.lane)
        check_channel(settings)
        if not is_local(settings.spark.master):
            ship(self._session.sparkContext)
        topics = self._broker.topics()
        add_writers(settings, self._writers, [], self._link, self._metrics, None)
        writer = self._writers[settings.lane]
        self._closing.callback(writer.close)
        begin = self._begin_at(writer, is_rebuild=self._rebuild(writer) is not None)
        draft = Computation(settings.lane, query, columns_of(settings, writer.engine))
        rows = draft.result(self._session, self._stream(begin))
        self._whole = is_row_by_row(rows)
        sink = self._sink(writer, rows.columns)
        sources = [_of_topics(begin, topics) for topics in streams_of(rows)]
        has_state = not self._whole or len(sources) > 1
        self._records_state = has_state
        opened = open_writers([writer], self._checkpoint, by_source(sources), settings.mode.value, has_state=has_state)
        self._check_decided(writer)
        writer.pin(self._broker.cluster_id(), ids_of(topics))
        # a prepared epoch may have ended the rebuild
        self._lane = self._make_lane(writer, sink, self._rebuild(writer))
        self._computation, self._result = draft, rows
        if left_out := condemned(writer.guard):
            self._computation = Computation(settings.lane, query, draft.columns, left_out)
        if left_out or not has_state:
            start = begin if has_state else opened.start
            self._result = self._computation.result(self._session, self._stream(start))
        return opened.start

    def _begin_at(self, writer: LaneWriter, *, is_rebuild: bool) -> Offsets:
        """Where the query begins that has no position. Notes the archive, where Kafka lacks what comes next."""
        settings, broker = self._settings, self._broker
        begin = broker.start_offsets(StartAt.EARLIEST if is_rebuild else settings.source.start)
        if is_rebuild and rebuilding.archived(settings, broker):
            begin = Offsets.of(dict.fromkeys(begin, 0))
        with translated(f"lane {writer.name}: reading the ledger"), writer.engine.connect() as connection:
            last = writer.ledger.last(connection)
        at = begin if last is None else begin.updated(plain(last.span).end)
        self._archive = QueryArchive.find(settings, broker, at)
        if self._archive is not None:
            log.info("reading the archive", lane=writer.name, start=at.nested(), until=self._archive.goal.nested())
        return begin

    def _stream(self, start: Offsets) -> Callable[[Sequence[str]], DataFrame]:
        most, archive = self._size.begin(), self._archive
        if archive is not None:
            return lambda topics: archive.stream(self._session, start, most, topics)
        cores = self._session.sparkContext.defaultParallelism
        return lambda topics: kafka_stream(self._session, self._settings.source, start, most, topics, tasks=cores)

    def _check_decided(self, writer: LaneWriter) -> None:
        """Raises Diverged where the target lacks the newest decided epoch, also one without messages."""
        assert writer.connection is not None, "just opened"
        planned = self._checkpoint.last_planned()
        if planned is None or not self._checkpoint.is_complete(planned):
            return
        with translated(f"lane {writer.name}: reading the ledger"):
            rescaling.check_applied(writer.connection, writer.ledger, self._checkpoint, planned)

    def _rebuild(self, writer: LaneWriter) -> TargetTable | None:
        """The table that is filled instead of the query's, while its result is computed anew."""
        schema = self._settings.target.db_schema
        with translated(f"lane {writer.name}: opening"), writer.engine.connect() as connection:
            return in_progress(connection, schema, writer.name)

    def _sink(self, writer: LaneWriter, columns: Sequence[str]) -> ResultSink:
        """Where the rows go. Raises TargetMismatch for a table or a topic that does not fit the result,
        EnvironmentMissing."""
        query, target = self._settings.query, self._settings.target
        assert query is not None, "the settings are a query's"
        access = StagingAccess(target.url, target.owner_role, variables_of_tasks(self._settings))
        if query.files is not None:
            writer.files = ResultFiles(writer.name, query.files, columns)
            writer.files.open()
            return writer.files
        if query.kafka is not None:
            return ResultTopic.of(writer.name, query, columns, target.db_schema, access)
        with translated(f"lane {writer.name}: opening"), writer.engine.connect() as connection:
            return ResultTable.find(connection, writer.name, query, columns, target.db_schema, access)

    def _open_sink(self, writer: LaneWriter, connection: Connection, sink: ResultSink) -> None:
        """What it needs beside the files of its epochs, once nothing is undecided any more."""
        if isinstance(sink, ResultFiles):
            return
        if isinstance(sink, ResultTopic):
            config = self._settings.query.kafka if self._settings.query is not None else None
            assert config is not None, "the sink is a topic"
            topic = TransactionalTopic(self._settings.source, config.topic, config.options, writer.name)
            self._closing.callback(topic.close)
            sent = topic.open()
            with translated(f"lane {writer.name}: opening"), connection.begin():
                sink.open(connection, sent)
            self._sender = ResultSender(writer, sink.outbox, topic, self._metrics[writer.name])
        assert isinstance(sink, ResultTable | ResultTopic), "all others have files"
        with translated(f"lane {writer.name}: opening"), connection.begin():
            sink.staging.make(connection)

    def _make_lane(self, writer: LaneWriter, sink: ResultSink, rebuild: TargetTable | None) -> QueryLane:
        settings, connection = self._settings, writer.connection
        assert connection is not None, "just opened"
        self._open_sink(writer, connection, sink)
        metrics = self._metrics[writer.name]
        metrics.set_generation(writer.generation)
        position = self._position(connection, writer)
        writer.guard.open(writer.generation, position, self._death)
        keeping = QuarantineWriter(
            writer.name, writer.generation, writer.quarantine, writer.guard, quarantine_rules(settings.guard)
        )
        lane = QueryLane(
            writer.name,
            writer.generation,
            connection,
            writer.ledger,
            make_committer(settings.mode, writer, self._publish),
            sink,
            writer.guard,
            keeping,
            metrics,
            condemned(writer.guard),
            None if rebuild is None else self._rebuilding(sink, rebuild),
        )
        metrics.set_position(lane.position)
        return lane

    def _rebuilding(self, sink: ResultSink, rebuilt: TargetTable) -> Rebuild:
        assert isinstance(sink, ResultTable), "only tables are rebuilt beside their rows"
        goal = self._broker.ends(self._broker.partitions())
        return Rebuild(sink.into(rebuilt), partial(rebuilding.end, sink, rebuilt), goal)

    def _position(self, connection: Connection, writer: LaneWriter) -> Offsets:
        with translated(f"lane {writer.name}: reading the ledger"), connection.begin():
            last = writer.ledger.last(connection)
        assert last is not None, "opening writes the first row"
        return last.span.end

    def _publish(self, commit_seconds: float) -> None:
        self._lane.publish(commit_seconds)
        if self._sender is not None:
            self._sender.notice()

    def _start_writer(self, start: Offsets, on_epoch: OnEpoch, most: int, until_caught_up: bool) -> StreamingQuery:
        del start, most  # the sources have them
        self._session.conf.set(ENCODING, state_encoding(self._result))
        writer = self._result.writeStream.foreachBatch(on_epoch).outputMode(
            self._computation.output(self._result).value
        )
        try:
            # from the archive the next run goes on with Kafka
            return begun(writer, self._settings, until_caught_up=until_caught_up and self._archive is None)
        except AnalysisException as error:  # of a plan that can be computed, but not of a stream
            raise self._computation.invalid(first_line(error)) from error

    def _process(self, rows: DataFrame | None, number: int) -> None:
        assert rows is not None, "Spark computes them"
        span = self._checkpoint.written.span(number)
        self._gate.begin(span.size)
        messages = TriedMessages(
            self._session,
            self._settings.source,
            self._computation,
            self._whole,
            self._broker.message if self._archive is None else self._archive.message,
            span,
            self._archive,
        )

        def stage(sink: ResultSink | None) -> list[StagedPart]:
            with spark_errors():
                if sink is None:
                    rows.write.format("noop").mode("overwrite").save()
                    return []
                receipts = sink.staged(rows)
                check_whole(rows, receipts, self._settings.lane)
                return receipts

        self._lane.process_epoch(number, span, ResultRows(stage, lambda: self._consumed(rows, span), messages))
        if self._sender is not None:
            self._sender.notice()

    def _consumed(self, rows: DataFrame, span: Span) -> int:
        """Messages that Spark has read for the epoch that it has just computed. Offsets have gaps, so they are counted
        where they are read."""
        if not span.size:
            return 0
        name = query_name(self._settings.lane)
        running: Any = next(one for one in self._session.streams.active if one.name == name)
        execution = running._jsq.streamingQuery().lastExecution()
        leaves, read = execution.executedPlan().collectLeaves(), 0
        for at in range(leaves.length()):
            leaf = leaves.apply(at)
            if leaf.getClass().getSimpleName() == _SCAN:
                read += leaf.metrics().apply(_READ_ROWS).value()
        return min(int(read), span.size)

    def _has_read(self, archive: QueryArchive) -> bool:
        position = self._lane.position
        return archive.is_read(plain(Span(start=position, end=position)).end) and self._at_rest() and self._is_settled()

    def _record_state(self) -> None:
        """Write names and schemas of the state to the target, for savepoints."""
        writer = self._writers[self._settings.lane]
        try:
            stores = stored_shape(self._session, self._settings.checkpoint)
            with translated(f"lane {writer.name}: its state"), writer.engine.begin() as connection:
                QueryStates(self._settings.target.db_schema).write(connection, writer.name, writer.generation, stores)
        except SurelaneError as error:
            self._records_state = error.verdict is Verdict.RETRY  # again soon; else the next start does it
            log.warning("what the state is like is not recorded", lane=writer.name, because=error.message)
        else:
            self._records_state = False

    def _before_query(self) -> None:
        """Do nothing: its epochs need what Spark computes."""

    def _go_ahead(self) -> None:
        """Do nothing: the rows of an epoch are Spark's."""

    def _between_epochs(self) -> None:
        """Show the figures of the state; end what reads the archive, at its end."""
        if self._archive is not None and self._has_read(self._archive):
            raise Replanned(f"lane {self._settings.lane}: it has read the archive, and goes on with Kafka")
        if time.monotonic() < self._figures_at or self._query is None:
            return
        self._figures_at = time.monotonic() + _FIGURES_SECONDS
        if self._records_state and self.epochs > 1:  # the first one is complete
            self._record_state()
        progress = self._query.lastProgress
        if progress is None:
            return
        states = progress.stateOperators
        watermark = progress.eventTime.get("watermark")
        self._metrics[self._settings.lane].set_query_state(
            rows=sum(one.numRowsTotal for one in states),
            memory_bytes=sum(one.memoryUsedBytes for one in states),
            commit_seconds=sum(one.commitTimeMs for one in states) / 1000,
            load_seconds=sum(one.customMetrics.get(_LOAD, 0) for one in states) / 1000,
            watermark=None if watermark is None else datetime.datetime.fromisoformat(watermark).timestamp(),
        )


def _of_topics(begin: Offsets, topics: Sequence[str]) -> Offsets:
    return begin.only({tp for tp in begin if tp.topic in topics}) if topics else begin
