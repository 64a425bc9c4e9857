"""Compiles `app.stage.instant_kernel` once for each installation, and calls it.

python -m app.stage.instants    compiles it unless that was done
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from app.machine_code import WORDS, Compiled, Kernel
from app.model.arrow import Indices, address
from app.stage.request import Instant

#: signature of `app.stage.instant_kernel.instants`
_FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    *(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64),
    *[ctypes.c_void_p] * 5,
    ctypes.c_int64,
)
#: bytes of lines: their places are 32-bit numbers
_MOST_BYTES = 1 << 31


class Instants:
    """The compiled function. Python runs meanwhile."""

    def __init__(self) -> None:
        self._code = KERNEL.load()
        self._call = _FUNCTION(self._code.address)
        self._more, self._grows = self._code.about["more"], self._code.about["grows"]

    def lines(self, lines: pa.Array, order: Indices, instants: Sequence[Instant]) -> pa.Array | None:
        """COPY lines at these indices, with the microseconds of their `instants`, which have a rising index, behind
        each, or NULL; None for more bytes than they may be."""
        _, places, data = lines.buffers()
        ends = np.frombuffer(places, np.int32)[lines.offset : lines.offset + len(lines) + 1]
        lengths = ends[1:] - ends[:-1]
        room = int(lengths[order].sum()) + len(order) * len(instants) * self._grows + self._more
        longest = int(lengths.max(initial=0)) + self._more
        if room + longest >= _MOST_BYTES:
            return None
        out, out_ends = np.empty(room + longest, np.uint8), np.empty(len(order) + 1, np.int32)
        at, units = np.array([(one.index, one.unit) for one in instants], np.int64).T.copy()
        read = (np.frombuffer(data, np.uint8), ends, np.ascontiguousarray(order, np.int64), at, units)
        self._run((*read, np.empty(len(instants), np.int64), out, out_ends), room)
        return pa.StringArray.from_buffers(len(order), pa.py_buffer(out_ends), pa.py_buffer(out))

    def _run(self, arrays: Sequence[np.ndarray], room: int) -> None:
        """Call the compiled code: it reads the first five arrays and writes the others."""
        data, ends, order, at, *others = map(address, arrays)
        self._call(len(arrays[2]), data, ends, len(arrays[0]), order, len(arrays[3]), at, *others, room)


@cache
def loaded() -> Instants:
    """The function of this process."""
    return Instants()


def _compiled() -> Compiled:
    from app.stage import instant_kernel as kernel  # it imports numba

    return kernel.compiled(), {"more": kernel.MORE, "grows": kernel.GROWS}


KERNEL = Kernel("instants", (Path(__file__).with_name("instant_kernel.py"), WORDS), _compiled)


if __name__ == "__main__":
    KERNEL.install("what reads times (once; takes three seconds)")
