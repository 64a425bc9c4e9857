"""Compiled decoding between pages that nothing may touch: a read or a write past an end is a SIGSEGV.

Each array is a copy of exactly its size. It lies directly before such a page, then directly behind one. What the
code only reads may not be written; what it writes is junk before.
"""

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from app.decode.scan_loader import Scanned, Scanner
from app.machine_code import MachineCode

_JUNK = 0xA5
#: of the arrays that compiled code gets, those that it only reads come first
_READ_ONLY = 6
_LIBC: Any = ctypes.CDLL(None, use_errno=True)
_MPROTECT: Any = _LIBC.mprotect
_MPROTECT.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_NONE, _READ, _WRITE = 0, mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE


class Region:
    """Pages between two that nothing may touch."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._pages = mmap.mmap(-1, self.size + 2 * mmap.PAGESIZE)
        whole = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        self._first, self._behind = whole + mmap.PAGESIZE, whole + mmap.PAGESIZE + self.size
        for guard in (whole, self._behind):
            protect(guard, mmap.PAGESIZE, _NONE)

    def place(self, size: int, *, at_end: bool) -> int:
        """Where so many bytes end with the last page, or begin with the first."""
        return self._behind - size if at_end else self._first

    def allow(self, access: int) -> None:
        """What may be done with it."""
        protect(self._first, self.size, access)


class GuardedScanner(Scanner):
    """See above. Not safe for several threads at once."""

    def __init__(self, code: MachineCode, more: bytes) -> None:
        """`more`: what lies behind the messages; the code promises to work with any bytes there."""
        super().__init__(replace(code, about={**code.about, "more": len(more)}))
        self._more = more
        self._regions: list[Region] = []
        #: messages that were not left
        self.taken = 0

    def scan(self, messages: Sequence[bytes | memoryview | None], keys: Sequence[bytes | None]) -> Scanned | None:
        """See `Scanner`."""
        found = super().scan(messages, keys)
        self.taken += 0 if found is None else int(np.count_nonzero(found.layouts >= 0))
        return found

    def _run(self, arrays: Sequence[np.ndarray]) -> int:
        found = [self._guarded(arrays, at_end=at_end) for at_end in (True, False)]
        assert found[0] == found[1], "the same, wherever the arrays lie"
        return found[0]

    def _guarded(self, arrays: Sequence[np.ndarray], *, at_end: bool) -> int:
        regions = self._big_enough([array.nbytes for array in arrays])
        places = [region.place(array.nbytes, at_end=at_end) for region, array in zip(regions, arrays, strict=True)]
        last = len(arrays) - 1
        for number, (array, place) in enumerate(zip(arrays, places, strict=True)):
            if number < _READ_ONLY or number == last:
                ctypes.memmove(place, array.ctypes.data, array.nbytes)
            else:
                ctypes.memset(place, _JUNK, array.nbytes)
            if number < _READ_ONLY:
                regions[number].allow(_READ)
        found = self._call(len(arrays[1]), *places, len(arrays[last]) - 1)
        for region in regions[:_READ_ONLY]:
            region.allow(_WRITE)
        for array, place in list(zip(arrays, places, strict=True))[_READ_ONLY:last]:
            ctypes.memmove(array.ctypes.data, place, array.nbytes)
        return found

    def _big_enough(self, sizes: list[int]) -> list[Region]:
        if not self._regions:
            self._regions = [Region(size) for size in sizes]
        for number, size in enumerate(sizes):
            if self._regions[number].size < size:
                self._regions[number] = Region(2 * size)
        return self._regions


def protect(address: int, size: int, access: int) -> None:
    """Raises OSError where the kernel does not do it."""
    if _MPROTECT(address, size, access):
        raise OSError(ctypes.get_errno(), "mprotect")
