"""The ledger's record of an epoch."""

import datetime
from dataclasses import dataclass, field
from typing import Self

from app.model.counts import Counts
from app.model.last import LastMessages
from app.model.offsets import Offsets, Span

#: epoch number of a lane's first ledger row, the configured start, before anything was applied
GENESIS = -1


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """One row of the ledger."""

    lane: str
    #: generation of the lane that applied the epoch
    generation: int
    #: Spark's batch id within the generation's checkpoint, or, where the lane goes ahead of that, its own number;
    #: GENESIS for the start row
    epoch: int
    #: the applied messages
    span: Span
    #: end of the read messages, where some behind the span are held; None: the span's end
    read_end: Offsets | None = None
    counts: Counts = field(default_factory=Counts)
    #: in which order changes were merged, see `app.apply.order_plan`
    plan: str = "none"
    #: oldest and newest source commit among the epoch's changes (UTC); None without one
    source_from: datetime.datetime | None = None
    source_to: datetime.datetime | None = None
    #: the last message of each partition before the span's end, where it is known
    last: LastMessages = field(default_factory=dict, hash=False)

    @classmethod
    def genesis(cls, lane: str, generation: int, start: Offsets, last: LastMessages | None = None) -> Self:
        """A lane's first row: its start position, against which the first epoch's start is checked."""
        span = Span(start=start, end=start)
        return cls(lane=lane, generation=generation, epoch=GENESIS, span=span, last=last or {})

    @property
    def read(self) -> Offsets:
        """End of the read messages, where the checkpoint continues."""
        return self.span.end if self.read_end is None else self.read_end
