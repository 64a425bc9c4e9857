"""Types of Arrow and numpy that their packages do not declare."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

#: functions that Arrow creates at import
compute: Any = pyarrow.compute
#: ordinals, or indices into another array
Indices = np.ndarray[tuple[int], np.dtype[np.int64]]


def address(array: np.ndarray) -> int:
    """Where its first element lies; `array.ctypes.data` makes an object for that."""
    return array.__array_interface__["data"][0]


def single(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
