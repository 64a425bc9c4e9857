"""Values or keys of many messages in one array, without an object for each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import pyarrow as pa

from app.model.arrow import Indices

#: bytes of anything behind the last one: compiled code reads several at once
ROOM_BYTES = 16
#: bits of a message: it has a value, it has a key
HAS_VALUE, HAS_KEY = 1, 2


@dataclass(frozen=True, eq=False)
class PackedBytes(Sequence[bytes | None]):
    """Texts of bytes, None where there is none."""

    #: all of them, and ROOM_BYTES
    data: np.ndarray[tuple[int], np.dtype[np.uint8]]
    #: where the first one begins, and where each ends
    ends: Indices
    are_there: np.ndarray[tuple[int], np.dtype[np.bool_]]

    def __len__(self) -> int:
        return len(self.are_there)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> "PackedBytes": ...
    def __getitem__(self, index: int | slice) -> "bytes | PackedBytes | None":
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return PackedBytes(self.data, self.ends[start : stop + 1], self.are_there[start:stop])
        if not self.are_there[index]:
            return None
        begin, end = self.ends[index], self.ends[index + 1]
        return self.data[begin:end].tobytes()

    def __iter__(self) -> Iterator[bytes | None]:
        whole, ends = memoryview(self.data.data), self.ends.tolist()
        for index, is_there in enumerate(self.are_there.tolist()):
            yield bytes(whole[ends[index] : ends[index + 1]]) if is_there else None

    def places(self) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], Indices, Indices]:
        """All bytes, and where each text begins and ends in them."""
        return self.data, self.ends[:-1], self.ends[1:]

    def arrow(self) -> pa.Array:
        """As an array of type `binary`; it keeps the bytes alive."""
        ends, bits = self.ends.astype(np.int32), np.packbits(self.are_there, bitorder="little")
        return pa.Array.from_buffers(
            pa.binary(), len(self), [pa.py_buffer(bits), pa.py_buffer(ends), pa.py_buffer(self.data)]
        )
