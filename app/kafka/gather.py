"""Compiles `app.kafka.gather_kernel` once for each installation, and calls it.

python -m app.kafka.gather    compiles it unless that was done
"""

import ctypes
from functools import cache
from pathlib import Path

import numpy as np

from app.kafka.batch import BlockBatch
from app.kafka.packed_bytes import HAS_KEY, HAS_VALUE, ROOM_BYTES, PackedBytes
from app.machine_code import Compiled, Kernel
from app.model.arrow import Indices, address
from app.model.offsets import TopicPartition

#: signature of `app.kafka.gather_kernel.gather`
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_void_p] * 6)


class Gather:
    """The compiled function. Python runs meanwhile."""

    def __init__(self) -> None:
        self._code = KERNEL.load()
        self._call = _FUNCTION(self._code.address)

    def errors(self, messages: Indices) -> int:
        """How many of the messages at these addresses are errors."""
        ends = np.empty(len(messages) + 1, np.int64)
        return self._sizes(messages, ends, ends)

    def take(self, tp: TopicPartition, messages: Indices, destroy: int) -> BlockBatch:
        """Copy the messages at these addresses, none of which is an error, and give each to the function at
        `destroy`."""
        count = len(messages)
        value_ends, key_ends = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
        offsets, are_there = np.empty(count, np.int64), np.empty(count, np.uint8)
        self._sizes(messages, value_ends, key_ends)
        values, keys = (np.empty(int(ends[-1]) + ROOM_BYTES, np.uint8) for ends in (value_ends, key_ends))
        arrays = (values, value_ends, keys, key_ends, offsets, are_there)
        self._call(count, address(messages), destroy, *map(address, arrays))
        has_key, has_value = (are_there & bit != 0 for bit in (HAS_KEY, HAS_VALUE))
        return BlockBatch(tp, offsets, PackedBytes(keys, key_ends, has_key), PackedBytes(values, value_ends, has_value))

    def _sizes(self, messages: Indices, value_ends: Indices, key_ends: Indices) -> int:
        ends = address(value_ends), address(key_ends)
        return self._call(len(messages), address(messages), 0, 0, ends[0], 0, ends[1], 0, 0)


@cache
def loaded() -> Gather:
    """The function of this process."""
    return Gather()


def _compiled() -> Compiled:
    from app.kafka import gather_kernel  # it imports numba

    return gather_kernel.compiled(), {}


KERNEL = Kernel("gather", (Path(__file__).with_name("gather_kernel.py"),), _compiled, f"{HAS_VALUE} {HAS_KEY}")


if __name__ == "__main__":
    KERNEL.install("what gathers messages (once; takes two seconds)")
