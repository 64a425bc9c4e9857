"""Compiles `app.decode.scan_kernel` once for each installation, and loads it when there is enough to decode.

    python -m app.decode.scan_loader    compiles it unless that was done: ten seconds, once

Loading it (`app.machine_code`) is too much for a lane with a message now and then: a decoder requests it after a number
of messages, and decodes in Python until it is loaded.
"""

import ctypes
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from app.kafka.packed_bytes import ROOM_BYTES, PackedBytes
from app.machine_code import WORDS, Compiled, Kernel, MachineCode
from app.model.arrow import Indices, address
from app.model.row_layout import SEPARATOR

#: signature of `app.decode.scan_kernel.scan`: two numbers, and arrays between them
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 18, ctypes.c_int64)
#: maximum bytes of messages in one array: a place in it has 32 bits
_MOST_BYTES = (1 << 31) - 1


@dataclass(frozen=True)
class Scanned:
    """What the compiled code took of some messages, in their order."""

    #: of each message the index into `texts`, -1 where it was left
    layouts: Indices
    #: columns, source schema, table and "u" or "d", each behind a separator
    texts: list[str]
    #: COPY lines (`app.model.rows`); "" where a message was left
    lines: pa.Array
    #: `source.sequence`, null where there is none
    sequences: pa.Array
    #: milliseconds since 1970
    times: Indices
    #: whether it is a row of a snapshot
    are_read: np.ndarray[tuple[int], np.dtype[np.bool_]]


class Scanner:
    """The compiled functions. Any number of threads may scan at once; Python runs meanwhile."""

    def __init__(self, code: MachineCode) -> None:
        """`code.about`: `more`, bytes that it reads and writes beyond the data; `origin`, length of its array for a
        message's origin."""
        self._more, self._origin = bytes(code.about["more"]), code.about["origin"]
        self._code = code
        self._call = _FUNCTION(code.address)

    def scan(self, messages: Sequence[bytes | memoryview | None], keys: Sequence[bytes | None]) -> Scanned | None:
        """Take what can be taken of these messages, a delete only with a key; None where all are left: too long
        together, or not UTF-8."""
        count = len(messages)
        (data, *places), (own, *key_places) = _joined(messages, self._more), _joined(keys, self._more)
        room = len(data) + len(own)
        if room > _MOST_BYTES:
            return None
        lines, sequences, texts = (np.empty(room, np.uint8) for _ in range(3))
        line_ends, sequence_ends = np.empty(count + 1, np.int32), np.empty(count + 1, np.int32)
        times, layouts, text_ends = (np.empty(count, np.int64) for _ in range(3))
        has_sequence, are_read = np.empty(count, np.bool_), np.empty(count, np.bool_)
        read = (data, *places, own, *key_places)
        arrays = (*read, lines, line_ends, sequences, sequence_ends, has_sequence, times, are_read)
        slots = np.zeros(2 << count.bit_length(), np.int64)
        found = self._run((*arrays, layouts, texts, text_ends, np.empty(self._origin, np.int64), slots))
        line_array = _strings(lines, line_ends)
        sequence_array = _strings(sequences, sequence_ends, has_sequence)
        try:
            if found < 0:
                line_array.validate(full=True)
                sequence_array.validate(full=True)
            known = _texts(texts, text_ends[: abs(found)])
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        return Scanned(layouts, known, line_array, sequence_array, times, are_read)

    def _run(self, arrays: Sequence[np.ndarray]) -> int:
        """Call the compiled code: it reads the first six arrays and writes the others."""
        messages, slots = len(arrays[1]), len(arrays[-1])
        return self._call(messages, *map(address, arrays), slots - 1)


@cache
def loading() -> Future[Scanner]:
    """The scanner of this process; the first call starts a thread that loads it."""
    pool = ThreadPoolExecutor(1, "compile")
    future = pool.submit(load)
    pool.shutdown(wait=False)
    return future


def load() -> Scanner:
    """Load the compiled code, or compile it."""
    return Scanner(KERNEL.load())


def _compiled() -> Compiled:
    from app.decode import scan_kernel as scan  # it imports numba

    return scan.compiled(), {"more": scan.MORE, "origin": scan.ORIGIN}


KERNEL = Kernel("scan", (Path(__file__).with_name("scan_kernel.py"), WORDS), _compiled, SEPARATOR)


def _joined(parts: Sequence[bytes | memoryview | None], more: bytes) -> tuple[np.ndarray, Indices, Indices]:
    """All parts in one array, with `more` behind them; where each part begins and ends. None is an empty part."""
    if isinstance(parts, PackedBytes):
        assert len(more) <= ROOM_BYTES, "it has as many bytes behind it"
        return parts.places()
    _, places, data = pa.array([*parts, more], pa.large_binary()).buffers()
    ends = np.frombuffer(places, np.int64)[: len(parts) + 1]
    return np.frombuffer(data, np.uint8), ends[:-1], ends[1:]


def _strings(data: np.ndarray, ends: np.ndarray, are_there: np.ndarray | None = None) -> pa.Array:
    """`ends`: a 0, then the end of each string."""
    validity = None if are_there is None else pa.py_buffer(np.packbits(are_there, bitorder="little"))
    return pa.StringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(data), validity)


def _texts(data: np.ndarray, ends: np.ndarray) -> list[str]:
    places = ends.tolist()
    whole = data[: places[-1] if places else 0].tobytes()
    return [whole[begin:end].decode() for begin, end in pairwise([0, *places])]


if __name__ == "__main__":
    KERNEL.install("what decodes (once; takes ten seconds)")
