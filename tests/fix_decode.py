"""Decoding messages with the real Spark expressions, without Kafka: a data frame with Kafka's columns."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from app.decode.debezium import DebeziumJson
from app.decode.interface import KAFKA, Decoder
from tests.messages import Message

TOPIC = "made-up"

Decode = Callable[[Sequence[Message]], pa.Table]


@pytest.fixture
def decode(spark: SparkSession) -> Decode:
    """`decode(messages)`: the decoded rows, in the messages' order."""

    return lambda messages: decoded_by(DebeziumJson(transactions=True), spark, messages)


def decoded_by(decoder: Decoder, spark: SparkSession, messages: Sequence[Message]) -> pa.Table:
    """What a decoder makes of messages, in their order."""
    rows = [(TOPIC, 0, offset, message.key, message.value) for offset, message in enumerate(messages)]
    return decoder.decode(spark.createDataFrame(rows, KAFKA)).toArrow().sort_by("offset")
