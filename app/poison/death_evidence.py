"""What a worker's death counts for against the span that was in progress. Pure.

    killed by the kernel for want of memory     memory: the next epochs are smaller
    the lane waited for Kafka or a database     nothing: the span is not suspected
    a signal of its own fault (SIGSEGV, ...)    a failure of the span
    an exit without an exception (`os._exit`)   a failure of the span
    hung in its own work                        a failure of the span
    everything else                             unexplained: SIGKILL from outside, the JVM gone, no report at all

The lane records an exception that it raised and that ends the worker (`Guard.unforeseen`); an exception raised
elsewhere in the process does not count against the span.
"""

import enum
import signal

from app.errors import SparkGone
from app.model.activity import OWN_WORK
from app.model.death import Cause, Death

#: signals that a process's own fault raises
_OWN_SIGNALS = frozenset(
    getattr(signal, name).name for name in ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS")
)


class DeathEvidence(enum.Enum):
    NOTHING = "nothing"
    UNEXPLAINED = "unexplained"  #: narrows the span, but condemns no message
    FAILURE = "failure"
    MEMORY = "memory"


def weigh(death: Death | None, lane: str) -> DeathEvidence:
    """Weigh the death of a worker that had a span of `lane` in progress; None: no supervisor reported how it ended."""
    if death is None:
        return DeathEvidence.UNEXPLAINED
    return _weighed(death, death.doing.get(lane))


def evidence_of(death: Death) -> DeathEvidence:
    """Weigh the death of a process that worked on one span only."""
    return _weighed(death, next(iter(death.doing.values()), None))


def _weighed(death: Death, activity: str | None) -> DeathEvidence:
    if death.cause is Cause.OOM:
        return DeathEvidence.MEMORY
    if activity not in OWN_WORK:
        return DeathEvidence.NOTHING
    match death.cause:
        case Cause.HANG:
            return DeathEvidence.FAILURE
        case Cause.SIGNAL:
            return DeathEvidence.FAILURE if death.detail in _OWN_SIGNALS else DeathEvidence.UNEXPLAINED
        case Cause.EXIT:
            return _of_exit(death.detail)


def _of_exit(detail: str) -> DeathEvidence:
    """`detail`: the exception's class, or "status N" where the worker ended without one."""
    if detail.startswith("status "):
        return DeathEvidence.FAILURE
    return DeathEvidence.UNEXPLAINED if detail == SparkGone.__name__ else DeathEvidence.NOTHING
