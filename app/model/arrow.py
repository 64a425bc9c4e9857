"""What Arrow and numpy do not say to a type checker."""

from typing import Any

import numpy as np
import pyarrow.compute

#: functions that Arrow makes at import
compute: Any = pyarrow.compute
#: ordinals, or indices into something else
Indices = np.ndarray[tuple[int], np.dtype[np.int64]]
