"""What the death of a worker says of the span that was in progress. Pure.

    the lane waited for Kafka or a database     nothing: the span is not even suspected
    killed by the kernel for want of memory     memory: the epoch is made smaller
    a signal of its own making (SIGSEGV, ...)   a failure of the span
    an exit without a word (`os._exit`)         a failure of the span
    hung in its own work                        a failure of the span
    everything else                             unexplained: SIGKILL from outside, the JVM gone, no report at all

An exception that ends the worker is recorded by the lane that raised it (`Guard.unforeseen`); one that was raised
elsewhere in the process has nothing to do with the span.
"""

import enum
import signal

from app.errors import SparkGone
from app.model.activity import OWN_WORK
from app.model.death import Cause, Death

#: signals that a process gets for what it does itself
_OWN_SIGNALS = frozenset(
    getattr(signal, name).name for name in ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS")
)


class DeathEvidence(enum.Enum):
    """What a death counts for."""

    NOTHING = "nothing"
    UNEXPLAINED = "unexplained"  #: the span is narrowed; by itself this condemns no message
    FAILURE = "failure"
    MEMORY = "memory"


def weigh(death: Death | None, lane: str) -> DeathEvidence:
    """Of the worker that had begun a span of `lane`; None: no supervisor has reported how it ended."""
    if death is None:
        return DeathEvidence.UNEXPLAINED
    return _weighed(death, death.doing.get(lane))


def evidence_of(death: Death) -> DeathEvidence:
    """Of a process that did nothing else."""
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
    """`detail`: the exception's class, or "status N" where the worker ended without a word."""
    if detail.startswith("status "):
        return DeathEvidence.FAILURE
    return DeathEvidence.UNEXPLAINED if detail == SparkGone.__name__ else DeathEvidence.NOTHING
