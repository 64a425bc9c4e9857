"""Arrow's compute functions, which it makes at import and describes to no type checker."""

from typing import Any

import pyarrow.compute

compute: Any = pyarrow.compute
