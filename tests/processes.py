"""Processes that may end while a test looks at them."""

from contextlib import suppress

import psutil


def name_of(process: psutil.Process) -> str:
    """Empty for one that is gone."""
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""
