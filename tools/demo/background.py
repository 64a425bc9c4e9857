"""A function that a background thread calls periodically."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self


class Background:
    """Calls `step` every `every_seconds`; use as a context manager. `check` raises what a step raised."""

    def __init__(self, name: str, step: Callable[[], None], every_seconds: float) -> None:
        self._step, self._every = step, every_seconds
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._running: Future[None] | None = None

    def __enter__(self) -> Self:
        self._running = self._pool.submit(self._run)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End after the current step; raises the step's failure unless the block raised already."""
        self._stop.set()
        self._pool.shutdown()
        if error is None:
            self.check()

    def stop(self) -> None:
        """End after the current step and raise its failure; may be called again."""
        self._stop.set()
        self._pool.shutdown()
        self.check()

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._running is not None and self._running.done():
            self._running.result()

    def _run(self) -> None:
        """Call `step` at a steady rate; after a slow step the schedule shifts, without steps to catch up."""
        due = time.monotonic()
        while not self._stop.is_set():
            self._step()
            due = max(due + self._every, time.monotonic())
            self._stop.wait(due - time.monotonic())
