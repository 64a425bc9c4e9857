"""Decoding messages without Kafka: with Spark from a data frame with Kafka's columns, and in this process."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from app.decode import scanner
from app.decode.debezium import DebeziumJson
from app.decode.driver import DriverDecoder
from app.decode.interface import KAFKA, Decoder
from app.kafka.spans import Batch
from app.model.offsets import TopicPartition
from tests.messages import Message

TOPIC = "made-up"

Decoded = Callable[[Sequence[Message]], pa.Table]


@pytest.fixture(params=["workers", "driver", "compiled"])
def decode(request: pytest.FixtureRequest) -> Decoded:
    """`decode(messages)`: the decoded rows, in the messages' order, as Spark gives them and as the driver does, there
    also with compiled code, which knows nothing of transactions."""
    if request.param == "compiled":
        compiled = DriverDecoder(scanner=scanner.loading().result())
        return lambda messages: decoded_here(compiled, messages)
    if request.param == "driver":
        return lambda messages: decoded_here(DriverDecoder(transactions=True), messages)
    spark = request.getfixturevalue("spark")
    return lambda messages: decoded_by(DebeziumJson(transactions=True), spark, messages)


def decoded_here(decoder: DriverDecoder, messages: Sequence[Message]) -> pa.Table:
    """What the driver's decoder makes of messages."""
    keys, values = [one.key for one in messages], [one.value for one in messages]
    return decoder.decode([Batch(TopicPartition(TOPIC, 0), list(range(len(messages))), keys, values)])


def decoded_by(decoder: Decoder, spark: SparkSession, messages: Sequence[Message]) -> pa.Table:
    """What a decoder makes of messages, in their order."""
    rows = [(TOPIC, 0, offset, message.key, message.value) for offset, message in enumerate(messages)]
    return decoder.decode(spark.createDataFrame(rows, KAFKA)).toArrow().sort_by("offset")
