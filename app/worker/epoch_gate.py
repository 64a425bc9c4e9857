"""What an epoch waits for before it begins: the end of a pause, the target's standbys, and the lane's rate."""

import time
from collections.abc import Callable

from app.config.settings import LimitSettings

#: seconds between two looks
LOOK_SECONDS = 0.1


class EpochGate:
    """One for all lanes of a run. `is_held` and `has_to_stop` are called while an epoch waits."""

    def __init__(self, limits: LimitSettings, is_held: Callable[[], bool], has_to_stop: Callable[[], bool]) -> None:
        self._rate = limits.messages_per_second
        self._is_held, self._has_to_stop = is_held, has_to_stop
        #: when the next epoch may begin by the rate, `time.monotonic`
        self._due = 0.0

    def wait(self) -> bool:
        """Wait until an epoch may begin; False: the lane has to stop."""
        while not self._has_to_stop():
            left = self._due - time.monotonic()
            if left <= 0 and not self._is_held():
                return True
            time.sleep(LOOK_SECONDS if left <= 0 else min(left, LOOK_SECONDS))
        return False

    @property
    def is_open(self) -> bool:
        """Whether an epoch may begin now."""
        return self._due <= time.monotonic() and not (self._has_to_stop() or self._is_held())

    def begin(self, messages: int) -> None:
        """Count an epoch that begins now."""
        if self._rate is not None:
            self._due = max(self._due, time.monotonic()) + messages / self._rate
