"""The step from a decoded DataFrame to an Arrow table, with the user's function in between if there is one."""

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame

from app.config.settings import Transform, Where
from app.transform.function import DDL, load, over, over_batches

Collect = Callable[[DataFrame], pa.Table]


def in_driver(transform: Transform | None) -> Callable[[pa.Table], pa.Table] | None:
    """The user's function over decoded rows in this process; None without one. Raises ConfigInvalid when it cannot be
    loaded."""
    if transform is None:
        return None
    function = load(transform.function)
    return lambda rows: over(function, rows)


def collector(transform: Transform | None) -> Collect:
    """Gives the rows of a decoded DataFrame, transformed; raises ConfigInvalid when the function cannot be loaded."""
    if transform is None:
        return DataFrame.toArrow
    function = load(transform.function)
    if transform.where is Where.DRIVER:
        return lambda frame: over(function, frame.toArrow())
    return lambda frame: frame.mapInArrow(over_batches(transform.function), DDL).toArrow()
