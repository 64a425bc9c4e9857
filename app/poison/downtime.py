"""The time that is lost to what is suspected, over all the processes that it takes.

    entered -> something of the epoch fails -> nothing is suspected any more: all since it was first entered is lost
                                            -> given up, and nothing is suspected: none is

It is told as a whole at its end, by the process that gets there: what a process that dies has counted is gone with it.
"""

import time


class LostTime:
    """Of one lane."""

    def __init__(self) -> None:
        self._entered: float | None = None
        self._since: float | None = None

    def enter(self) -> None:
        """An epoch begins."""
        self._entered = time.monotonic()

    def fail(self) -> None:
        """Something of the epoch failed; it may have done so before."""
        if self._since is None:
            self._since = self._entered

    def resume(self, seconds: float) -> None:
        """It began so long ago, in a process before this one or on a connection before this one."""
        self._since = time.monotonic() - seconds

    @property
    def seconds(self) -> float:
        """Since the epoch was first entered, 0 while nothing of it has failed."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    def end(self) -> float:
        """It is over; what was lost."""
        seconds, self._entered, self._since = self.seconds, None, None
        return seconds
