"""How long the steps of an epoch take."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Steps:
    """Seconds by step, in the order in which the steps were taken."""

    def __init__(self) -> None:
        #: seconds since 1970
        self.began = time.time()
        self.seconds: dict[str, float] = {}
        #: milliseconds by activity of the stage process; it may have done them before the epoch began
        self.staging: Mapping[str, float] = {}

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Measure the time inside, as a part of this step."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - begin)
