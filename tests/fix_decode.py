"""Decoding messages without Kafka: in Python, and by compiled code."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from app.decode import scan_loader as scanner
from app.decode.debezium import DebeziumJson
from app.kafka.spans import Batch
from app.model.offsets import TopicPartition
from tests.messages import Message

TOPIC = "made-up"

Decoded = Callable[[Sequence[Message]], pa.Table]


@pytest.fixture(params=["python", "compiled"])
def decode(request: pytest.FixtureRequest) -> Decoded:
    """`decode(messages)`: the decoded rows, in the messages' order. Compiled code knows nothing of transactions."""
    if request.param == "compiled":
        decoder = DebeziumJson(scanner=scanner.loading().result())
    else:
        decoder = DebeziumJson(transactions=True)
    return lambda messages: decoded_here(decoder, messages)


def decoded_here(decoder: DebeziumJson, messages: Sequence[Message]) -> pa.Table:
    """What a decoder makes of messages."""
    keys, values = [one.key for one in messages], [one.value for one in messages]
    return decoder.decode([Batch(TopicPartition(TOPIC, 0), list(range(len(messages))), keys, values)])
