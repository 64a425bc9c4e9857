"""How a replay's range is cut into epochs: as large as the lane's may be, by messages and by bytes."""

import math

from app.config.settings import EpochSettings
from app.model.offsets import Offsets, Span
from app.poison.narrowing import size as offsets_in

#: of the first epoch, which tells how large messages are
FIRST_MESSAGES = 1_000
#: an epoch has at most so many times the messages of the one before
GROWTH = 10


class Cutting:
    """Cuts epochs one after the other. Bytes are those of the decoded rows."""

    def __init__(self, epoch: EpochSettings) -> None:
        self._most, self._bytes = epoch.max_messages, epoch.max_bytes
        self._messages = min(FIRST_MESSAGES, self._most)

    def next(self, position: Offsets, goal: Offsets) -> Span:
        """What comes next on the way to the goal: of each partition as large a part as of the others."""
        left = {tp: max(0, offset - position[tp]) for tp, offset in goal.items()}
        part = min(1.0, self._messages / max(1, sum(left.values())))
        end = {tp: position[tp] + min(count, math.ceil(count * part)) for tp, count in left.items()}
        return Span(start=position, end=Offsets.of(end))

    def learn(self, span: Span, size: int) -> None:
        """An epoch was read, with so many bytes."""
        messages = offsets_in(span)
        fitting = int(self._bytes * messages / max(1, size))
        self._messages = max(1, min(self._most, fitting, GROWTH * max(1, messages)))
