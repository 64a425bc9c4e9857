"""Cuts a range that no query plans into epochs, as large as the lane's may be by messages and by bytes."""

from itertools import accumulate, pairwise

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
        """The next epoch's span towards `goal`."""
        return first_of(Span(start=position, end=goal), self._messages)

    def learn(self, span: Span, size: int) -> None:
        """Adapt to an epoch that was read and had `size` bytes."""
        messages = max(1, span.size)
        self._messages = min(self._size.fitting(size / messages), GROWTH * messages)


def first_of(span: Span, messages: int) -> Span:
    """The span's first messages: about the same fraction of each partition, together no more than so many."""
    left = [max(0, end - span.start[tp]) for tp, end in span.end.items()]
    whole = max(messages, sum(left))
    taken = [messages * behind // whole for behind in accumulate(left, initial=0)]
    parts = {tp: last - first for tp, (first, last) in zip(span.end, pairwise(taken), strict=True)}
    return Span(start=span.start, end=Offsets.of({tp: span.start[tp] + count for tp, count in parts.items()}))
