"""Messages of librdkafka in arrays: what is copied, and what is given back."""

import ctypes
import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from app.kafka import gather
from app.kafka.block_consumer import MessageStruct
from app.model.offsets import TopicPartition
from tests.fix_decode import packed

PARTS: Sequence[bytes | None] = (b"one", None, b"", b"\xff\x00", b"x" * 5000, None)


def test_packed_bytes_are_like_a_list() -> None:
    found = packed(PARTS)
    assert len(found) == len(PARTS)
    assert list(found) == list(PARTS) == [found[index] for index in range(len(found))]
    for start in range(len(PARTS)):
        for stop in range(start, len(PARTS) + 1):
            part = found[start:stop]
            assert list(part) == list(PARTS[start:stop])
            assert part.arrow().to_pylist() == list(PARTS[start:stop])
            assert part.arrow().type == pa.binary()


@pytest.mark.parametrize("seed", range(5))
def test_messages_are_copied_and_given_back_once(seed: int) -> None:
    chance = random.Random(seed)
    texts = [None, b"", *(chance.randbytes(chance.randrange(1, 400)) for _ in range(20))]
    pairs = [(chance.choice(texts), chance.choice(texts)) for _ in range(chance.choice([0, 1, 300]))]
    kept: list[object] = []

    def place(part: bytes | None) -> tuple[int | None, int]:
        if part is None:
            return None, 0
        kept.append(buffer := ctypes.create_string_buffer(part, max(1, len(part))))
        return ctypes.addressof(buffer), len(part)

    structs = [
        MessageStruct(0, None, 3, *place(value), *place(key), 7 * index) for index, (key, value) in enumerate(pairs)
    ]
    addresses = np.array([ctypes.addressof(one) for one in structs], np.int64)
    given: list[int] = []
    destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda at: given.append(at))
    found = gather.loaded().take(TopicPartition("t", 3), addresses, ctypes.cast(destroy, ctypes.c_void_p).value or 0)
    assert found.offsets.tolist() == [7 * index for index in range(len(pairs))]
    assert list(zip(found.keys, found.values, strict=True)) == pairs
    assert given == addresses.tolist()


def test_errors_are_counted_and_nothing_is_given_back() -> None:
    structs = [MessageStruct(error, None, 0, None, 0, None, 0, 0) for error in (0, -191, 3, 0)]
    addresses = np.array([ctypes.addressof(one) for one in structs], np.int64)
    assert gather.loaded().errors(addresses) == 2
    assert gather.loaded().errors(addresses[:1]) == 0
