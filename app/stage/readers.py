"""The Kafka consumers of one stage process: one for each lane that it reads for."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from app.kafka.exact_reader import ExactReader
from app.model.offsets import Offsets, Span
from app.stage.request import Keep, Request

#: lanes that have a consumer at the same time; the least recently used one is closed
READERS = 16
B = TypeVar("B")


class Readers(Generic[B]):
    """Used by one thread."""

    def __init__(self, choose: Callable[[ExactReader[B] | None, Span], ExactReader[B]]) -> None:
        """`choose`: the reader for a span, given the one that the lane has: that one, or a new one."""
        self._choose = choose
        self._readers: OrderedDict[str, ExactReader[B]] = OrderedDict()

    def get(self, lane: str) -> ExactReader[B] | None:
        """The lane's reader, None where it has none."""
        return self._readers.get(lane)

    def of(self, request: Request | Keep, start: Offsets) -> ExactReader[B]:
        """The lane's reader; a new one begins at `start`."""
        lane = request.lane
        before = self._readers.get(lane)
        reader = self._readers[lane] = self._choose(before, Span(start=start, end=request.span.end))
        if reader is not before:
            reader.go_to(start, {tp: term for tp, term in request.terms.items() if tp in start})
            if before is not None:
                before.close()
        self._readers.move_to_end(lane)
        while len(self._readers) > READERS:
            self._readers.popitem(last=False)[1].close()
        return reader

    def close(self) -> None:
        """Close the connections."""
        for reader in self._readers.values():
            reader.close()
