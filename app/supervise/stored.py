"""Messages that the quarantine has kept, decoded once more: Kafka need not have them any longer."""

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from app.decode.interface import KAFKA, Decoder
from app.decode.schema import Fields, fields_of
from app.kafka.broker import Broker, RawMessage
from app.model.offsets import Position
from app.model.rows import Layout
from app.supervise.spark_errors import spark_errors


class StoredMessages:
    """Decodes stored messages as the lane decodes those that Kafka has; remembers the last ones."""

    def __init__(
        self, spark: SparkSession, decoder: Decoder, collect: Callable[[DataFrame], pa.Table], broker: Broker
    ) -> None:
        self._spark, self._decoder, self._collect, self._broker = spark, decoder, collect, broker
        self._last: dict[Position, RawMessage] = {}

    def decode(self, messages: Sequence[RawMessage]) -> pa.Table:
        """See `app.lane.releasing.Decode`."""
        self._last = {one.position: one for one in messages}
        rows = [(*one.position, one.key, one.value) for one in messages]
        with spark_errors():
            return self._collect(self._decoder.decode(self._spark.createDataFrame(rows, KAFKA)))

    def schema(self, position: Position, layout: Layout) -> Fields:
        """Connect schema of the columns of the message there, be it one of the last or one that Kafka has."""
        message = self._last.get(position) or self._broker.messages(position, 1)[0]
        return fields_of(message.key, message.value, layout)
