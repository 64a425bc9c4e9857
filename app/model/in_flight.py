"""A view of the requests at stage processes, for metrics and `surelane status`."""

import enum
from collections import Counter
from dataclasses import dataclass, field

from app.model.offsets import Span


class SpanState(enum.StrEnum):
    """State of a span until its receipt: before, during each activity (`app.model.activity`), and after staging."""

    WAITING = "waiting"  #: no process has begun it
    FETCH = "fetch"
    DECODE = "decode"
    FUNCTION = "function"
    ARRANGE = "arrange"
    SERVER = "server"
    STAGED = "staged"  #: its rows are in staging tables and wait for their epoch
    ANSWERED = "answered"  #: its answer, other than staged rows, has not been taken yet
    CANCELLED = "cancelled"  #: the request was cancelled; its process still works on it


@dataclass(frozen=True, kw_only=True, order=True)
class StageProcess:
    """A connected stage process."""

    #: host of its executor
    host: str
    #: number of the resident task that keeps it
    slot: int
    pid: int


@dataclass(frozen=True, kw_only=True)
class InFlight:
    """One request to a stage process."""

    #: unique within its driver
    number: int
    lane: str
    #: None: no process has it yet
    process: StageProcess | None
    #: without partitions for stored messages
    span: Span
    state: SpanState
    #: seconds since it entered this state; differs in each view, so it is not compared
    age_seconds: float = field(compare=False)
    #: bytes of its decoded rows, as in `stage.ahead_bytes`; 0 until it is staged
    size: int


@dataclass(frozen=True, kw_only=True)
class InFlightView:
    """All requests at one moment."""

    processes: tuple[StageProcess, ...] = ()
    spans: tuple[InFlight, ...] = ()

    @property
    def idle(self) -> tuple[StageProcess, ...]:
        """Processes without a request."""
        busy = {span.process for span in self.spans if span.state not in (SpanState.STAGED, SpanState.ANSWERED)}
        return tuple(process for process in self.processes if process not in busy)

    @property
    def ahead_bytes(self) -> int:
        """Bytes that are staged and wait for their epoch."""
        return sum(span.size for span in self.spans if span.state is SpanState.STAGED)

    @property
    def by_host(self) -> Counter[str]:
        """Number of processes by host."""
        return Counter(process.host for process in self.processes)

    @property
    def by_state(self) -> Counter[tuple[str, SpanState]]:
        """Number of spans by host and state; the host is empty without a process."""
        return Counter((span.process.host if span.process else "", span.state) for span in self.spans)
