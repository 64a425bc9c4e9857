"""Commits the pending epoch without waiting for the next one: a thread watches Spark's `commits/`.

Spark has no callback for a written `commits/N`; its listener runs 200 ms late. If only the next epoch committed the
last one, the last epoch before a quiet hour would stay invisible for that hour.
"""

import threading
import time
from collections.abc import Callable

from app.errors import SurelaneError, Verdict
from app.protocol.pending_epochs import PendingEpochs

#: seconds between two reads of the checkpoint where no entry is reported, growing from the first to the second value: a
#: local disk answers in microseconds, an object store charges for each read
LOOK_SECONDS = (0.001, 0.25)
#: seconds between two tries of COMMIT PREPARED while the database is away
RETRY_SECONDS = 0.5


class CheckpointWatcher:
    """Commits each pending epoch that has its `commits/` entry."""

    def __init__(self, epochs: PendingEpochs, wait: Callable[[float], object] = time.sleep) -> None:
        """`wait` returns after so many seconds, or earlier, when an entry was written."""
        self._epochs, self._wait = epochs, wait
        self._stop = threading.Event()
        self._pending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="checkpoint-watcher", daemon=True)
        #: the error that ended the thread; the lane has to stop
        self.failure: SurelaneError | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. A pending epoch stays pending; the next start settles it."""
        self._stop.set()
        self._pending.set()
        self._thread.join()

    def notice(self) -> None:
        """Wake the thread: an epoch may be pending."""
        self._pending.set()

    def _watch(self) -> None:
        while self._pending.wait() and not self._stop.is_set():
            self._pending.clear()
            wait = LOOK_SECONDS[0]
            while waiting := self._epochs.waiting:
                if self._stop.is_set():
                    return
                try:
                    done = [self._epochs.commit(committer) for committer in waiting]
                except SurelaneError as error:
                    if error.verdict is not Verdict.RETRY:
                        self.failure = error
                        return
                    time.sleep(RETRY_SECONDS)
                    continue
                if not any(done):
                    self._wait(wait)
                    wait = min(wait * 1.3, LOOK_SECONDS[1])
