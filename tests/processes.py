"""Processes that may end while a test looks at them."""

from contextlib import suppress

import psutil


def name_of(process: psutil.Process) -> str:
    """Empty for one that is gone."""
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


def is_python(process: psutil.Process) -> bool:
    """Whether it is one of Surelane's or Spark's Python processes; not one that is gone."""
    return name_of(process).startswith(("python", "surelane"))
