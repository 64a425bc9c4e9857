"""Notices the epochs that Spark has planned before it calls the lane with them: between the two it makes a plan of its
own for some milliseconds, which no lane reads, and the epoch can begin already."""

import threading
from collections.abc import Callable

from app.spark.entry_events import EntryEvents

#: seconds between two looks while the epoch in progress is waited for
LOOK_SECONDS = 0.1


class PlannedEpochs:
    """A thread that waits for entries `offsets/N`."""

    def __init__(
        self, events: EntryEvents, on_planned: Callable[[int], None], is_spark_gone: Callable[[], bool]
    ) -> None:
        """`on_planned` gets the number of each epoch as soon as it is planned; it may have begun by then."""
        self._events, self._on_planned, self._is_spark_gone = events, on_planned, is_spark_gone
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="planned epochs", daemon=True)

    def start(self) -> None:
        """Call it when the folder is there: without reports there is no thread."""
        if self._events.are_reported:
            self._thread.start()

    def stop(self) -> None:
        """Wait for the epoch in progress, unless Spark is gone: then no task answers, and this process ends."""
        self._stop.set()
        self._events.wake()
        while self._thread.is_alive():
            if self._is_spark_gone():
                return
            self._thread.join(LOOK_SECONDS)
        self._events.close()

    def _watch(self) -> None:
        while not self._stop.is_set():
            for name in self._events.wait(0.0):
                if name.isdigit() and not self._stop.is_set():
                    self._on_planned(int(name))
