"""What a message format has to offer; formats are chosen by `source.format`."""

from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

#: what decoding needs of the columns of Spark's Kafka source
KAFKA = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
    ]
)


class Decoder(Protocol):
    """Turns Kafka rows into decoded rows."""

    def decode(self, messages: DataFrame) -> DataFrame:
        """`messages` has at least the columns of KAFKA; the result has
        `app.model.rows.COLUMNS`, one row for each message, and never fails on what a message contains."""
        ...
