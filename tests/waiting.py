"""Waiting for a condition: the only place in the tests that sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

LOOK_SECONDS = 0.02


def eventually(condition: Callable[[], Answer], timeout: float = 120.0, why: str = "") -> Answer:
    """Ask `condition` until its answer is true and give that; fails after `timeout` seconds, saying `why` it waited."""
    end = time.monotonic() + timeout
    while not (answer := condition()):
        assert time.monotonic() < end, (
            f"gave up after {timeout:g} s waiting for {why or condition}; last answer: {answer!r}"
        )
        time.sleep(LOOK_SECONDS)
    return answer
