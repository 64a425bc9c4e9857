"""Waits for the answer of a task."""

import time
from collections.abc import Callable

from app import errors
from app.dispatch.lost import TaskDied
from app.dispatch.pool import Lost, Pool, StageAttempt
from app.errors import JobFailed, SurelaneError, Unreachable
from app.stage.receipt import Failed, Final

#: seconds between two checks while waiting
_LOOK_SECONDS = 1.0
#: seconds to wait for a stage process to connect
NO_PROCESS_SECONDS = 60.0


def answer_of(
    pool: Pool, attempt: StageAttempt, still: Callable[[], None], look_seconds: float = _LOOK_SECONDS
) -> Final:
    """Wait for a task's last answer; `still` is called repeatedly meanwhile, and may raise. Raises the error that the
    task met, TaskDied where the task died, Unreachable where no stage process connects."""
    begun_at = time.monotonic()
    try:
        while (answer := pool.answer(attempt, look_seconds)) is None:
            still()
            if attempt.process is None and time.monotonic() - begun_at > NO_PROCESS_SECONDS:
                raise Unreachable(
                    f"no stage process has connected within {NO_PROCESS_SECONDS:g} s",
                    hint="see what the lane has logged of its resident jobs: have they a core of the session, and can "
                    "Spark's Python import this package there? ops/runbooks/lag.md, Stage processes",
                )
    except BaseException:
        pool.cancel(attempt, nothing)
        raise
    if isinstance(answer, Lost):
        raise TaskDied(answer.death)
    if isinstance(answer, Failed):
        raise _error(answer)
    assert isinstance(answer, Final), "nothing is asked back"
    return answer


def nothing() -> None:
    """There is nothing to do after a cancelled request for rows or messages: no table was lent for it."""


def _error(failed: Failed) -> SurelaneError:
    found = getattr(errors, failed.error, None)
    kind = found if isinstance(found, type) and issubclass(found, SurelaneError) else JobFailed
    return kind(failed.message, hint=failed.hint)
