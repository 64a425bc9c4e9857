"""Keeps modules from being imported by others that would take them where they are installed, and do not need them."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType


def have_structlog_skip_rich() -> None:
    """Call it before structlog is imported, which imports rich for tracebacks that no log has: 0.1 s of a start. What
    imports rich later gets it."""
    with _without("rich"):
        import structlog  # noqa: F401


def have_arrow_skip_pandas() -> None:
    """Call it before the first array, with which PyArrow imports pandas: 0.27 s of a start. Only queries need it. What
    imports pandas later gets it, and `to_pandas` works; before that PyArrow takes a Series for any sequence."""
    import pyarrow as pa

    with _without("pandas"):
        pa.array([0])


def have_spark_skip_pandas() -> None:
    """Call it before the first call of Java that has an argument: there PySpark asks its helpers of tests whether there
    is numpy, and they import pandas to say which tests to skip. 0.4 s of a start. What imports pandas later gets it."""
    with _without("pandas"):
        import pyspark.testing.utils  # noqa: F401


@contextmanager
def _without(name: str) -> Iterator[None]:
    """The module is not installed for what is imported inside."""

    class NotInstalled:
        @staticmethod
        def find_spec(wanted: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
            del path, target
            if wanted == name:
                raise ModuleNotFoundError(f"No module named '{wanted}'", name=wanted)
            return None

    sys.meta_path.insert(0, NotInstalled)
    try:
        yield
    finally:
        sys.meta_path.remove(NotInstalled)
