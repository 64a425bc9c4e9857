"""The time that a lane loses to suspects, across all processes involved.

    epoch entered -> a part of it fails -> no suspect is left: the time since the epoch was first entered is lost
                                        -> given up without any suspect: no time is lost

The process that clears the last suspect reports the whole time at once: what a dying process has counted dies with it.
"""

import time


class LostTime:
    """The lost time of one lane."""

    def __init__(self) -> None:
        self._entered: float | None = None
        self._since: float | None = None

    def enter(self) -> None:
        """Record that an epoch begins."""
        self._entered = time.monotonic()

    def fail(self) -> None:
        """Record that a part of the epoch failed, unless one has failed before."""
        if self._since is None:
            self._since = self._entered

    def resume(self, seconds: float) -> None:
        """Continue a loss that began `seconds` ago, in an earlier process or on an earlier connection."""
        self._since = time.monotonic() - seconds

    @property
    def seconds(self) -> float:
        """Seconds since the epoch was first entered; 0 while no part of it has failed."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    def end(self) -> float:
        """End the measurement and return the seconds lost."""
        seconds, self._entered, self._since = self.seconds, None, None
        return seconds
