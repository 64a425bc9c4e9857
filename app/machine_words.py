"""Eight bytes at once, in functions that numba compiles (`app.machine_code`): operations that LLVM has an instruction
for, and Python has not.

Arrays are bare pointers (`types.CPointer`): nothing counts references or checks for an index below 0, which takes most
of the time. So as many bytes of anything have to lie behind what is read and written.
"""

from collections.abc import MutableSequence
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

Bytes = MutableSequence[int]
Integers = MutableSequence[int]
#: eight bytes, the first of them the lowest
Word = np.uint64

part: Any = numba.njit(error_model="numpy")
_instruction: Any = intrinsic

#: bytes of a word
WIDTH = 8
ONE = np.uint64(1)


def eight(byte: int) -> Word:
    """Eight times the same byte."""
    return np.uint64(byte * 0x0101010101010101)


#: the highest bit of each byte
HIGH = eight(0x80)


def _place(builder: Any, data: Any, at: Any) -> Any:
    """A pointer to the eight bytes from `at` on, aligned or not."""
    return builder.bitcast(builder.gep(data, [at]), ir.IntType(64).as_pointer())


@_instruction
def load(_: Any, data: Any, at: Any) -> Any:
    """The word from `at` on."""

    def made(_: Any, builder: Any, __: Any, given: Any) -> Any:
        return builder.load(_place(builder, *given), align=1)

    return types.uint64(data, at), made


@_instruction
def store(_: Any, out: Any, to: Any, word: Any) -> Any:
    """Write a word."""

    def made(context: Any, builder: Any, __: Any, given: Any) -> Any:
        builder.store(given[2], _place(builder, *given[:2]), align=1)
        return context.get_dummy_value()

    return types.void(out, to, word), made


@_instruction
def first_marked(_: Any, marks: Any) -> Any:
    """Index of the first of eight bytes that is marked; at least one is."""

    def made(_: Any, builder: Any, __: Any, given: Any) -> Any:
        return builder.lshr(builder.cttz(given[0], ir.Constant(ir.IntType(1), 1)), ir.Constant(ir.IntType(64), 3))

    return types.int64(marks), made


@_instruction
def fetch(_: Any, data: Any, at: Any) -> Any:
    """Have the processor fetch what is at `at` into its cache; there need not be anything."""

    def made(context: Any, builder: Any, __: Any, given: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        of = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, of, "llvm.prefetch.p0")
        builder.call(function, [builder.gep(given[0], [given[1]]), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(data, at), made


@part
def head(word: Word, count: int) -> Word:
    """The first `count` bytes of a word, fewer than eight; the others 0."""
    return word & ((ONE << np.uint64(8 * count)) - ONE)
