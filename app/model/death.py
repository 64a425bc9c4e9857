"""How a worker process died: what the supervisor saw, told to the next worker."""

import datetime
import enum
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

#: seconds that each message of a span adds to what its processing may take
SECONDS_A_MESSAGE = 0.010
#: a task is gone, with the stage process that it kept: beside the values of `Cause`
TASK_GONE = "task"


class Cause(enum.StrEnum):
    """What ended the worker."""

    SIGNAL = "signal"  #: something killed it; `detail` is the signal's name
    EXIT = "exit"  #: it ended by itself; `detail` is the exception's class, or the exit status where none is known
    HANG = "hang"  #: it took too long for a span and was killed by the supervisor
    OOM = "oom"  #: it or its JVM was killed by the kernel for want of memory


@dataclass(frozen=True, kw_only=True)
class Death:
    """One death of a worker."""

    cause: Cause
    detail: str
    at: datetime.datetime
    #: how often a worker was started again so far, this time included, by `label`
    restarts: Mapping[str, int] = field(default_factory=dict)
    #: lane -> activity (`app.model.activity`) of each span that was in progress
    doing: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """A short word, of few: fit to count by."""
        return self.cause.value if self.cause in (Cause.HANG, Cause.OOM) else self.detail

    def __str__(self) -> str:
        said = {
            Cause.SIGNAL: f"killed ({self.detail})",
            Cause.EXIT: f"ended with {self.detail}",
            Cause.HANG: f"hung: {self.detail}",
            Cause.OOM: f"out of memory ({self.detail})",
        }
        return said[self.cause]


def ending(status: int) -> str:
    """An exit status in words; a negative one is the signal that ended the process."""
    if status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:  # a real-time signal
        return f"signal {-status}"


def by_a_message(status: int) -> str | None:
    """What a message did to a process that did nothing else; None where the process survived."""
    return f"in a process of its own it ended that one ({ending(status)})" if status else None


HANGS_ALONE = "in a process of its own it hangs"
