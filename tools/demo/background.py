"""Something that is done again and again beside the main thread until the demo has seen enough."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self


class Background:
    """Calls `step` every so many seconds; use as a context manager. What a step raises is raised by `check`."""

    def __init__(self, name: str, step: Callable[[], None], every_seconds: float) -> None:
        self._step, self._every = step, every_seconds
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._running: Future[None] | None = None

    def __enter__(self) -> Self:
        self._running = self._pool.submit(self._run)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End after the present step; its failure counts, unless there is an earlier one."""
        self._stop.set()
        self._pool.shutdown()
        if error is None:
            self.check()

    def stop(self) -> None:
        """End after the present step; harmless when it has ended."""
        self._stop.set()
        self._pool.shutdown()
        self.check()

    def check(self) -> None:
        """Raise what a step raised."""
        if self._running is not None and self._running.done():
            self._running.result()

    def _run(self) -> None:
        """Steps keep their rate: one that took longer is not made up for."""
        due = time.monotonic()
        while not self._stop.is_set():
            self._step()
            due = max(due + self._every, time.monotonic())
            self._stop.wait(due - time.monotonic())
