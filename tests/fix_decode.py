"""Decoding messages without Kafka: in Python, and by compiled code."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from app.decode import scan_loader as scanner
from app.decode.debezium import DebeziumJson
from app.kafka.packed_bytes import ROOM_BYTES, PackedBytes
from app.kafka.spans import ListBatch
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
    return decoder.decode([ListBatch(TopicPartition(TOPIC, 0), list(range(len(messages))), keys, values)])


def packed(parts: Sequence[bytes | None]) -> PackedBytes:
    """The parts as a block has them."""
    texts = [part or b"" for part in parts]
    ends = np.cumsum([0, *map(len, texts)])
    data = np.frombuffer(b"".join(texts) + b"x" * ROOM_BYTES, np.uint8)
    return PackedBytes(data, ends, np.array([part is not None for part in parts], np.bool_))
