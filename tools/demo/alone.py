"""A lock for one demo at a time on a stack, because each demo wipes the stack."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import EnvironmentMissing


@contextmanager
def alone(stack_folder: Path) -> Iterator[None]:
    """Hold the lock of the demo; raises EnvironmentMissing if another demo holds it."""
    lock = stack_folder.with_suffix(".demo-lock")
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # the previous holder may have removed the file after we opened it
            held = os.path.samestat(os.fstat(handle.fileno()), lock.stat())
        except (BlockingIOError, FileNotFoundError):
            held = False
        if not held:
            raise EnvironmentMissing("another demo is running on this stack", hint="wait for its end, or name another")
        try:
            yield
        finally:
            lock.unlink()
