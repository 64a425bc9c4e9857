"""Waiting for a condition: the only place in the tests that sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

#: between two looks at first; later a fiftieth of the wait, and LONGEST_SECONDS at most
LOOK_SECONDS = 0.02
LONGEST_SECONDS = 0.1
#: counts for one look at most: what takes longer is a machine that is busy with something else
COUNTED_SECONDS = 0.5
MOST_TIMES = 2


def eventually(condition: Callable[[], Answer], timeout: float = 120.0, why: str = "") -> Answer:
    """Ask `condition` until its answer is true and give that; fails after `timeout` seconds, saying `why` it waited.

    Longer, up to twice as long, where looking itself takes its time: then whatever it waits for is kept waiting, too.
    """
    start = now = time.monotonic()
    counted = 0.0
    while not (answer := condition()):
        if counted > timeout or now - start > MOST_TIMES * timeout:
            raise AssertionError(f"gave up after {now - start:.0f} s waiting for {why or condition}: {answer!r}")
        time.sleep(min(max(LOOK_SECONDS, (now - start) / 50), LONGEST_SECONDS))
        before, now = now, time.monotonic()
        counted += min(now - before, COUNTED_SECONDS)
    return answer
