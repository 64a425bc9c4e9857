"""An epoch as the ledger records it."""

import datetime
from dataclasses import dataclass, field

from app.model.counts import Counts
from app.model.last import LastMessages
from app.model.offsets import Offsets, Span

#: the epoch number of a lane's first ledger row: where the lane was told to start, before anything was applied
GENESIS = -1


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """One row of the ledger."""

    lane: str
    #: incarnation of the lane that applied the epoch
    generation: int
    #: Spark's batch id within the generation's checkpoint; GENESIS for the start row
    epoch: int
    #: what was applied
    span: Span
    #: end of what was read, where messages behind the span are held; None: the span's end
    read_end: Offsets | None = None
    counts: Counts = field(default_factory=Counts)
    #: how the changes were merged: see `app.apply.order_plan`
    plan: str = "none"
    #: oldest and newest source commit among the epoch's changes (UTC), None when it had none
    source_from: datetime.datetime | None = None
    source_to: datetime.datetime | None = None
    #: of each partition the last message before the span's end, as far as it is known
    last: LastMessages = field(default_factory=dict, hash=False)

    @property
    def read(self) -> Offsets:
        """Up to where messages were read; the checkpoint goes on there."""
        return self.span.end if self.read_end is None else self.read_end
