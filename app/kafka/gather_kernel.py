"""Copies messages of librdkafka into arrays, and gives them back: the function that `app.kafka.gather` compiles.

A message is librdkafka's `rd_kafka_message_t`, whose layout is a part of its public interface (rdkafka.h), in words of
eight bytes: error, topic, partition, value and its length, key and its length, offset.
"""

from collections.abc import MutableSequence
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from app.kafka.packed_bytes import HAS_KEY, HAS_VALUE

#: arrays as bare pointers
Bytes = MutableSequence[int]
Integers = MutableSequence[int]

#: operations on addresses, which Python has not
_instruction: Any = intrinsic

#: places of words in a message
_ERROR, _VALUE, _VALUE_BYTES, _KEY, _KEY_BYTES, _OFFSET = 0, 3, 4, 5, 6, 7
_WORD_BYTES = 8
#: the error has four bytes
_LOWER_HALF = 0xFFFFFFFF


@_instruction
def _word(_: Any, message: Any, place: Any) -> Any:
    """A word of the message at this address."""

    def made(_: Any, builder: Any, __: Any, given: Any) -> Any:
        at = builder.add(given[0], builder.mul(given[1], ir.Constant(ir.IntType(64), _WORD_BYTES)))
        return builder.load(builder.inttoptr(at, ir.IntType(64).as_pointer()))

    return types.int64(message, place), made


@_instruction
def _copy(_: Any, out: Any, to: Any, start: Any, count: Any) -> Any:
    """Copy so many bytes from this address."""

    def made(context: Any, builder: Any, __: Any, given: Any) -> Any:
        out, to, start, count = given
        byte = ir.IntType(8).as_pointer()
        cgutils.raw_memcpy(builder, builder.gep(out, [to]), builder.inttoptr(start, byte), count, 1)
        return context.get_dummy_value()

    return types.void(out, to, start, count), made


@_instruction
def _call(_: Any, function: Any, message: Any) -> Any:
    """Call the function at this address with a message."""

    def made(context: Any, builder: Any, __: Any, given: Any) -> Any:
        signature = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
        builder.call(builder.inttoptr(given[0], signature.as_pointer()), [given[1]])
        return context.get_dummy_value()

    return types.void(function, message), made


def gather(
    count: int,
    messages: Integers,
    destroy: int,
    values: Bytes,
    value_ends: Integers,
    keys: Bytes,
    key_ends: Integers,
    offsets: Integers,
    are_there: Bytes,
) -> int:
    """Copy `count` messages, and give each to `destroy`. A call with `destroy` 0 finds the ends alone, thus the room
    for the bytes. Returns how many of the messages are errors."""
    value_end = key_end = errors = 0
    for index in range(count):
        message = messages[index]
        value, value_bytes = _word(message, _VALUE), _word(message, _VALUE_BYTES)
        key, key_bytes = _word(message, _KEY), _word(message, _KEY_BYTES)
        if _word(message, _ERROR) & _LOWER_HALF != 0:
            errors += 1
        if destroy != 0:
            offsets[index] = _word(message, _OFFSET)
            are_there[index] = (HAS_VALUE if value != 0 else 0) | (HAS_KEY if key != 0 else 0)
            _copy(values, value_end, value, value_bytes)
            _copy(keys, key_end, key, key_bytes)
            _call(destroy, message)
        value_end += value_bytes
        key_end += key_bytes
        value_ends[index + 1] = value_end
        key_ends[index + 1] = key_end
    value_ends[0] = key_ends[0] = 0
    return errors


def compiled() -> Any:
    """`gather` as a C function: call its `address` with the addresses of arrays."""
    byte, long = types.CPointer(types.uint8), types.CPointer(types.int64)
    signature = types.int64(types.int64, long, types.int64, byte, long, byte, long, long, byte)
    return numba.cfunc(signature, error_model="numpy")(gather)
