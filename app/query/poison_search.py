"""Finds the message that a failing epoch is due to: parts of the epoch are read once more, as batches of Spark.

Where the query computes row by row, the whole of it is tried over each part; else only the views are, which decode.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from app.config.settings import SourceSettings
from app.model.last import LastMessages
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.model.rows import NO_ROWS
from app.query.archive_source import KAFKA_SCHEMA, QueryArchive
from app.query.computation import Computation
from app.source.stream import client_options
from app.spark.entries import topic_of
from app.spark.job_errors import spark_errors


def plain(span: Span) -> Span:
    """The span in topics of Kafka, whatever sources read them."""
    start: dict[TopicPartition, int] = {}
    end: dict[TopicPartition, int] = {}
    for tp, last in span.end.items():
        found = TopicPartition(topic_of(tp.topic), tp.partition)
        start[found] = min(start.get(found, last), span.start.get(tp, 0))
        end[found] = max(end.get(found, 0), last)
    return Span(start=Offsets.of(start), end=Offsets.of(end))


def plain_position(position: Position) -> Position:
    return position._replace(topic=topic_of(position.topic))


@dataclass(frozen=True)
class TriedMessages:
    """The messages of one epoch, which are tried and not kept: there are no rows. See
    `app.poison.epoch_rows.EpochRows`."""

    spark: SparkSession
    source: SourceSettings
    computation: Computation
    #: whether the whole query is tried, instead of its views only
    whole: bool
    #: at a position of Kafka
    read_message: Callable[[Position], RawMessage | None]
    span: Span
    #: that has the epoch's messages; None: Kafka has them
    archive: QueryArchive | None = None

    def all(self) -> pa.Table:
        return self.part(self.span)

    def part(self, span: Span) -> pa.Table:
        wanted = plain(span)

        def read(topics: Sequence[str]) -> DataFrame:
            mine = {tp for tp in wanted.end if not topics or tp.topic in topics}
            return self._batch(wanted.only(mine))

        with spark_errors():
            if self.whole:
                frames = [self.computation.result(self.spark, read)]
            else:
                frames = list(self.computation.views(read).values())
            for frame in frames:
                frame.write.format("noop").mode("overwrite").save()
        return NO_ROWS

    def message(self, position: Position) -> RawMessage | None:
        return self.read_message(plain_position(position))

    def messages(self, positions: Sequence[Position]) -> list[RawMessage | None]:
        return [self.message(position) for position in positions]

    def identified(self, span: Span) -> LastMessages:
        del span
        return {}

    def _batch(self, span: Span) -> DataFrame:
        if not span.size:
            return self.spark.createDataFrame([], KAFKA_SCHEMA)
        if self.archive is not None:
            return self.archive.batch(self.spark, span)
        assigned = {topic: [int(one) for one in parts] for topic, parts in span.end.nested().items()}
        options = {
            **client_options(self.source),
            "assign": json.dumps(assigned),
            "startingOffsets": span.start.to_json(),
            "endingOffsets": span.end.to_json(),
        }
        return self.spark.read.format("kafka").options(**options).load()
