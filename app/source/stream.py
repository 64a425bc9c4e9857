"""The streaming query: Spark's Kafka source cuts the topic into epochs and calls back with each of them."""

import json
import math
import re
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from app.config.settings import Epoch, Settings, Source
from app.decode.interface import Decoder
from app.kafka.security import java_options
from app.model.offsets import Offsets, Span
from app.source.messages import Messages

#: what makes an epoch's content depend on nothing but its offsets; the configuration cannot override it
FIXED_OPTIONS = {"failOnDataLoss": "true", "kafka.isolation.level": "read_committed"}
DEFAULT_OPTIONS = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    # a fetch that has reached the topic's end holds up the next epoch's: measured, up to 0.5 s with Kafka's default
    "kafka.fetch.max.wait.ms": "25",
    "fetchOffset.numRetries": "10",
}


def start_query(
    spark: SparkSession,
    settings: Settings,
    messages: Messages,
    start: Offsets,
    on_epoch: Callable[[DataFrame, int], None],
    *,
    most: int,
    until_caught_up: bool,
) -> StreamingQuery:
    """Start reading at the checkpoint, or at `start` when it is empty; calls `on_epoch(frame, epoch)`.

    `most`: messages of an epoch.
    """
    epoch = settings.epoch
    options = {
        **client_options(settings.source),
        "maxOffsetsPerTrigger": str(most),
        **_split(epoch, most, spark.sparkContext.defaultParallelism),
        "startingOffsets": start.to_json(),
        **_subscription(settings),
    }
    rows = spark.readStream.format("kafka").options(**options).load()
    writer = messages.query(rows).writeStream.foreachBatch(on_epoch)
    writer = writer.option("checkpointLocation", settings.checkpoint).queryName(_query_name(settings.lane))
    if until_caught_up:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=epoch.trigger).start()


def read_span(spark: SparkSession, source: Source, decoder: Decoder, span: Span) -> DataFrame:
    """The decoded messages of exactly `span`, with a query of their own."""
    wanted: dict[str, list[int]] = {}
    for tp in span.end:
        wanted.setdefault(tp.topic, []).append(tp.partition)
    options = {
        **client_options(source),
        "assign": json.dumps(wanted),
        "startingOffsets": span.start.only(set(span.end)).to_json(),
        "endingOffsets": span.end.to_json(),
    }
    return decoder.decode(spark.read.format("kafka").options(**options).load())


def client_options(source: Source) -> dict[str, str]:
    """Options of every reader."""
    own = {"kafka.bootstrap.servers": source.bootstrap_servers}
    return {**DEFAULT_OPTIONS, **source.options, **java_options(source.security), **FIXED_OPTIONS, **own}


def _split(epoch: Epoch, most: int, cores: int) -> dict[str, str]:
    """How even one partition is read by several tasks; a small epoch is left to one, a task costs 20 ms of its own."""
    if epoch.min_partitions is not None:
        return {"minPartitions": str(epoch.min_partitions)}
    return {"maxRecordsPerPartition": str(math.ceil(most / cores))}


def _subscription(settings: Settings) -> dict[str, str]:
    source = settings.source
    return {"subscribe": ",".join(source.topics)} if source.topics else {"subscribePattern": str(source.topic_pattern)}


def _query_name(lane: str) -> str:
    return re.sub(r"\W", "_", lane)
