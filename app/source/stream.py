"""The streaming query: Spark's Kafka source cuts the topics into epochs, and the query calls back with each."""

import re
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from app.config.settings import Settings, SourceSettings
from app.kafka.security import java_options
from app.model.offsets import Offsets

#: with these an epoch's content depends only on its offsets; the configuration cannot override them
FIXED_OPTIONS = {"failOnDataLoss": "true", "kafka.isolation.level": "read_committed"}
DEFAULT_OPTIONS = {"fetchOffset.numRetries": "10"}


def start_query(
    spark: SparkSession,
    settings: Settings,
    start: Offsets,
    on_epoch: Callable[[DataFrame, int], None],
    *,
    most: int,
    until_caught_up: bool,
) -> StreamingQuery:
    """Plan epochs from the checkpoint on, or from `start` when it is empty; calls `on_epoch(frame, epoch)`, which need
    not read the frame.

    `most`: limit of an epoch's messages.
    """
    options = {
        **client_options(settings.source),
        "maxOffsetsPerTrigger": str(most),
        "startingOffsets": start.to_json(),
        **_subscription(settings),
    }
    rows = spark.readStream.format("kafka").options(**options).load()
    writer = rows.writeStream.foreachBatch(on_epoch)
    writer = writer.option("checkpointLocation", settings.checkpoint).queryName(_query_name(settings.lane))
    if until_caught_up:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=settings.epoch.trigger).start()


def client_options(source: SourceSettings) -> dict[str, str]:
    """Options of every Kafka reader of Spark."""
    own = {"kafka.bootstrap.servers": source.bootstrap_servers}
    return {**DEFAULT_OPTIONS, **source.options, **java_options(source.security), **FIXED_OPTIONS, **own}


def _subscription(settings: Settings) -> dict[str, str]:
    source = settings.source
    return {"subscribe": ",".join(source.topics)} if source.topics else {"subscribePattern": str(source.topic_pattern)}


def _query_name(lane: str) -> str:
    return re.sub(r"\W", "_", lane)
