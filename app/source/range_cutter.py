"""Cuts a range that no query plans into epochs, as large as the lane's may be by messages and by bytes."""

import math

from app.config.settings import EpochSettings
from app.model.offsets import Offsets, Span
from app.source.size import EpochSize

#: messages of the first epoch, from which the size of messages is learned
FIRST_MESSAGES = 1_000
#: most messages of an epoch, as a multiple of the epoch before
GROWTH = 10


class RangeCutter:
    """Cuts one epoch after the other. Bytes are those of the decoded rows."""

    def __init__(self, epoch: EpochSettings) -> None:
        self._size = EpochSize(epoch)
        self._messages = min(FIRST_MESSAGES, epoch.max_messages)

    def next(self, position: Offsets, goal: Offsets) -> Span:
        """The next epoch's span towards `goal`; takes the same fraction of what is left of each partition."""
        part = min(1.0, self._messages / max(1, position.left_to(goal)))
        left = {tp: max(0, offset - position[tp]) for tp, offset in goal.items()}
        end = {tp: position[tp] + min(count, math.ceil(count * part)) for tp, count in left.items()}
        return Span(start=position, end=Offsets.of(end))

    def learn(self, span: Span, size: int) -> None:
        """Adapt to an epoch that was read and had `size` bytes."""
        messages = max(1, span.size)
        self._messages = min(self._size.fitting(size / messages), GROWTH * messages)
