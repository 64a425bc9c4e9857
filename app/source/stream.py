"""The streaming query: Spark's Kafka source cuts the topics into epochs, and the query calls back with each."""

import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from app.config.settings import Settings, SourceSettings
from app.kafka.security import java_options
from app.model.offsets import Offsets
from app.spark.session import ComingSession

#: with these an epoch's content depends only on its offsets; the configuration cannot override them
FIXED_OPTIONS = {"failOnDataLoss": "true", "kafka.isolation.level": "read_committed"}
DEFAULT_OPTIONS = {
    "fetchOffset.numRetries": "10",
    # Spark asks for the topic's ends after each poll, and drops what the client has fetched ahead
    "kafka.max.poll.records": "20000",
    # a consumer fetches ahead; at the end of the topic the broker keeps that request so long, and a task that reads
    # elsewhere with this consumer waits for it. Spark polls only for messages that are there: no more requests
    "kafka.fetch.max.wait.ms": "20",
}


class _EpochCallback:
    """Receives the number of each epoch from the JVM. What `DataStreamWriter.foreachBatch` makes of a function calls
    the JVM seven times, a millisecond, for a frame that no lane reads."""

    def __init__(self, on_epoch: Callable[[int], None]) -> None:
        self._on_epoch = on_epoch

    def call(self, frame: Any, number: int) -> None:
        del frame
        self._on_epoch(number)

    class Java:
        """What Py4J wants to know."""

        implements = ("org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction",)


def start_query(
    spark: SparkSession,
    settings: Settings,
    start: Offsets,
    on_epoch: Callable[[int], None],
    *,
    most: int,
    until_caught_up: bool,
) -> StreamingQuery:
    """Plan epochs from the checkpoint on, or from `start` when it is empty; calls `on_epoch(epoch)`.

    `most`: limit of an epoch's messages.
    """
    writer = kafka_stream(spark, settings.source, start, most).writeStream
    gateway: Any = spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    sources: Any = gateway.jvm.org.apache.spark.sql.execution.streaming.sources
    sources.PythonForeachBatchHelper.callForeachBatch(
        writer._jwrite,  # pyright: ignore[reportPrivateUsage]
        _EpochCallback(on_epoch),
    )
    ensure_callback_server_started(gateway)
    return begun(writer, settings, until_caught_up=until_caught_up)


def warm_up(spark: ComingSession, source: SourceSettings) -> None:
    """Start a thread that makes a stream like the query's, and drops it: the JVM has loaded what that takes when the
    query starts. What fails here fails there."""

    def make() -> None:
        with suppress(Exception):
            kafka_stream(spark.get(), source, Offsets(), 1, source.topics or ["none"])

    threading.Thread(target=make, name="warm up", daemon=True).start()


def kafka_stream(
    spark: SparkSession,
    source: SourceSettings,
    start: Offsets,
    most: int,
    topics: Sequence[str] = (),
    *,
    tasks: int | None = None,
) -> DataFrame:
    """The messages of these topics, or of all that the source has, as a stream that begins at `start`.

    `tasks`: at least so many read an epoch, also of one partition; None: one for each partition.
    """
    begin = start.only({tp for tp in start if tp.topic in topics}) if topics else start
    options = {
        **client_options(source),
        "maxOffsetsPerTrigger": str(most),
        "startingOffsets": begin.to_json(),
        **({} if tasks is None else {"minPartitions": str(tasks)}),
        **({"subscribe": ",".join(topics)} if topics else _subscription(source)),
    }
    return spark.readStream.format("kafka").options(**options).load()


def begun(writer: DataStreamWriter, settings: Settings, *, until_caught_up: bool) -> StreamingQuery:
    """Start the query on the lane's checkpoint."""
    writer = writer.option("checkpointLocation", settings.checkpoint).queryName(query_name(settings.lane))
    if until_caught_up:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=settings.epoch.trigger).start()


def client_options(source: SourceSettings) -> dict[str, str]:
    """Options of every Kafka reader of Spark."""
    own = {"kafka.bootstrap.servers": source.bootstrap_servers}
    return {**DEFAULT_OPTIONS, **source.options, **java_options(source.security), **FIXED_OPTIONS, **own}


def _subscription(source: SourceSettings) -> dict[str, str]:
    return {"subscribe": ",".join(source.topics)} if source.topics else {"subscribePattern": str(source.topic_pattern)}


def query_name(lane: str) -> str:
    """Spark's name of the query."""
    return re.sub(r"\W", "_", lane)
