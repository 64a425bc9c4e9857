"""How a worker process died, as the supervisor reports it to the next worker."""

import datetime
import enum
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

#: seconds that each message of a span adds to its timeout
SECONDS_A_MESSAGE = 0.010
#: a task ended, with its stage process; a cause beside the values of `Cause`
TASK_GONE = "task"


class Cause(enum.StrEnum):
    """Why the worker ended."""

    SIGNAL = "signal"  #: a signal killed it; `detail` is the signal's name
    EXIT = "exit"  #: it exited; `detail` is the exception's class, or the exit status if the class is unknown
    HANG = "hang"  #: the supervisor killed it because a span took too long
    OOM = "oom"  #: the OOM killer killed it or its JVM


@dataclass(frozen=True, kw_only=True)
class Death:
    cause: Cause
    detail: str
    at: datetime.datetime
    #: restarts of workers so far, this one included, by `label`
    restarts: Mapping[str, int] = field(default_factory=dict)
    #: lane -> activity (`app.model.activity`) of each span that was in progress
    doing: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """A label of low cardinality for metrics."""
        return self.cause.value if self.cause in (Cause.HANG, Cause.OOM) else self.detail

    def __str__(self) -> str:
        texts = {
            Cause.SIGNAL: f"killed ({self.detail})",
            Cause.EXIT: f"ended with {self.detail}",
            Cause.HANG: f"hung: {self.detail}",
            Cause.OOM: f"out of memory ({self.detail})",
        }
        return texts[self.cause]


def ending(status: int) -> str:
    """An exit status as text; a negative one is the signal that ended the process."""
    if status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:  # a real-time signal
        return f"signal {-status}"


def by_a_message(status: int) -> str | None:
    """Text for the exit status of a process that handled one message only; None for status 0."""
    return f"in a process of its own it ended that one ({ending(status)})" if status else None


HANGS_ALONE = "in a process of its own it hangs"
