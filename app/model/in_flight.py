"""What stage processes have in hand, as it is seen from outside."""

import enum
from collections import Counter
from dataclasses import dataclass, field

from app.model.offsets import Span


class SpanState(enum.StrEnum):
    """Where a span is on its way to a receipt: before, in each activity (`app.model.activity`), and after."""

    WAITING = "waiting"  #: no process has begun it
    FETCH = "fetch"
    DECODE = "decode"
    FUNCTION = "function"
    ARRANGE = "arrange"
    SERVER = "server"
    STAGED = "staged"  #: its rows are in staging tables, and wait for their turn
    ANSWERED = "answered"  #: its answer, of another kind, has not been taken yet
    CANCELLED = "cancelled"  #: nobody wants it; its process has not done with it


@dataclass(frozen=True, kw_only=True, order=True)
class StageProcess:
    """One that is connected."""

    #: of its executor
    host: str
    #: of the resident job that keeps it
    slot: int
    pid: int


@dataclass(frozen=True, kw_only=True)
class InFlight:
    """One request to a stage process."""

    #: within its driver
    number: int
    lane: str
    #: None: there was no process yet
    process: StageProcess | None
    #: without partitions: of messages that were kept
    span: Span
    state: SpanState
    #: seconds since it came into this state; no two looks have the same
    age_seconds: float = field(compare=False)
    #: bytes of its decoded rows, as `stage.ahead_bytes` counts them; 0 until it is staged
    size: int


@dataclass(frozen=True, kw_only=True)
class InFlightView:
    """One look at all of them."""

    processes: tuple[StageProcess, ...] = ()
    spans: tuple[InFlight, ...] = ()

    @property
    def idle(self) -> tuple[StageProcess, ...]:
        """Processes that have nothing in hand."""
        busy = {span.process for span in self.spans if span.state not in (SpanState.STAGED, SpanState.ANSWERED)}
        return tuple(process for process in self.processes if process not in busy)

    @property
    def ahead_bytes(self) -> int:
        """Of what is staged and waits for its turn."""
        return sum(span.size for span in self.spans if span.state is SpanState.STAGED)

    @property
    def by_host(self) -> Counter[str]:
        """Processes."""
        return Counter(process.host for process in self.processes)

    @property
    def by_state(self) -> Counter[tuple[str, SpanState]]:
        """Spans by host and state; those without a process have an empty host."""
        return Counter((span.process.host if span.process else "", span.state) for span in self.spans)
