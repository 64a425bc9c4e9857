"""Messages read and decoded by Spark's tasks: on as many cores as there are, and with what Spark can do to a row."""

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from app.apply.arrange import Epoch
from app.config.settings import Source
from app.decode.interface import KAFKA, Decoder
from app.kafka.broker import RawMessage
from app.model.activity import Activity
from app.model.last import LastMessage
from app.model.offsets import Offsets, Span, TopicPartition
from app.source.stream import read_span
from app.spark.errors import spark_errors


class SparkMessages:
    """See `app.source.messages`."""

    def __init__(
        self,
        spark: SparkSession,
        source: Source,
        decoder: Decoder,
        collect: Callable[[DataFrame], pa.Table],
        doing: Callable[[Activity], None] = lambda _: None,
    ) -> None:
        """`collect`: see `app.transform.stage`; `doing` is called with what this thread does from now on."""
        self._doing = doing
        self._spark, self._source, self._decoder, self._collect = spark, source, decoder, collect

    def query(self, messages: DataFrame) -> DataFrame:
        """Decoding is part of the query, so that Spark analyses it once and not in each epoch."""
        return self._decoder.decode(messages)

    def go_to(self, start: Offsets, terms: Mapping[TopicPartition, int]) -> None:
        """Spark's own readers get their offsets with each epoch, and cannot be given a leader epoch."""

    def last(self, tp: TopicPartition, end: int) -> LastMessage | None:
        """A row has no leader epoch."""
        return None

    def epoch(self, frame: DataFrame, span: Span) -> pa.Table:  # it is the frame's
        """As planned."""
        self._doing(Activity.DECODE)
        with spark_errors():
            return self._collect(frame)

    def arranged(self, rows: pa.Table) -> Epoch:
        """Nothing is done ahead."""
        return Epoch.arrange(rows)

    def part(self, span: Span) -> pa.Table:
        """With a job of its own."""
        self._doing(Activity.DECODE)
        with spark_errors():
            return self._collect(read_span(self._spark, self._source, self._decoder, span))

    def stored(self, messages: Sequence[RawMessage]) -> pa.Table:
        """With a job of its own."""
        rows = [(*one.position, one.key, one.value) for one in messages]
        with spark_errors():
            return self._collect(self._decoder.decode(self._spark.createDataFrame(rows, KAFKA)))

    def close(self) -> None:
        """Nothing is held."""
