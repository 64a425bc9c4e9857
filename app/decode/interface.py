"""What a message format has to offer; formats are chosen by `source.format`."""

from typing import Protocol

from pyspark.sql import DataFrame


class Decoder(Protocol):
    """Turns Kafka rows into decoded rows."""

    def decode(self, messages: DataFrame) -> DataFrame:
        """`messages` has Spark's Kafka columns (key, value, topic, partition, offset, ...); the result has
        `app.model.rows.COLUMNS`, one row for each message, and never fails on what a message contains."""
        ...
