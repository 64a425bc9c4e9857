"""Waits for a condition, with a time limit."""

import time
from collections.abc import Callable
from typing import TypeVar

from app.errors import EnvironmentMissing

Answer = TypeVar("Answer")

POLL_SECONDS = 0.05


def wait_for(condition: Callable[[], Answer], *, reason: str, seconds: float, hint: str | None = None) -> Answer:
    """Poll `condition` until it is true, and return its value; raises EnvironmentMissing after `seconds`.

    `reason` completes the sentence "waiting for ...".
    """
    end = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > end:
            raise EnvironmentMissing(f"gave up after {seconds:.0f} s waiting for {reason}", hint=hint)
        time.sleep(POLL_SECONDS)
    return answer
