"""A thread that applies messages before Spark has planned an epoch with them: in a lane whose target decides alone, the
checkpoint only has to know where to go on, and may be behind."""

import threading
import time
from collections.abc import Callable
from enum import Enum, auto

#: without a message for so long the thread rests until Spark has planned an epoch
QUIET_SECONDS = 1.0
#: longest and shortest time between two looks for messages; in between a tenth of the time since the last message
_LONGEST_LOOK_SECONDS, _SHORTEST_LOOK_SECONDS = 0.01, 0.001
#: seconds between two looks while the epoch in progress is waited for
_STOP_LOOK_SECONDS = 0.1


class AheadStep(Enum):
    """What one step came to."""

    APPLIED = auto()
    #: no messages
    NOTHING = auto()
    #: to be left to an epoch that Spark plans
    LEFT = auto()


class GoingAhead:
    """Takes steps after each epoch that has passed, until nothing comes any more, or a step is left to Spark."""

    def __init__(self, step: Callable[[], AheadStep], is_spark_gone: Callable[[], bool]) -> None:
        self._step, self._is_spark_gone = step, is_spark_gone
        self._begin, self._rests, self._stop = threading.Event(), threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._is_over = False
        self._rests.set()
        self._thread = threading.Thread(target=self._run, name="going ahead", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise what a step has failed with."""
        if self._failure is not None:
            raise self._failure

    def follow(self, seconds: float) -> None:
        """Have it go on behind an epoch that has passed; returns when it rests or `let_go` is called, or after this
        time."""
        self._rests.clear()
        self._begin.set()
        if not self._is_over:
            self._rests.wait(seconds)
        self.check()

    def let_go(self) -> None:
        """Have `follow` return; the steps go on."""
        self._rests.set()

    def stop(self) -> None:
        """Wait for the step in progress, unless Spark is gone: then no task answers, and this process ends."""
        self._stop.set()
        self._begin.set()
        while self._thread.is_alive() and not self._is_spark_gone():
            self._thread.join(_STOP_LOOK_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._begin.wait()
                self._begin.clear()
                self._go()
                if not self._begin.is_set():
                    self._rests.set()
        except BaseException as error:  # noqa: BLE001  # raised where Spark calls
            self._failure = error
        finally:
            self._is_over = True
            self._rests.set()

    def _go(self) -> None:
        last = time.monotonic()
        while not self._stop.is_set():
            match self._step():
                case AheadStep.APPLIED:
                    last = time.monotonic()
                    continue
                case AheadStep.LEFT:
                    return
                case AheadStep.NOTHING:
                    idle = time.monotonic() - last
            if idle > QUIET_SECONDS:
                return
            time.sleep(min(max(idle / 10, _SHORTEST_LOOK_SECONDS), _LONGEST_LOOK_SECONDS))
