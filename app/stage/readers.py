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

    def __init__(
        self,
        make: Callable[[], ExactReader[B]],
        other: Callable[[ExactReader[B], Span], ExactReader[B] | None] = lambda *_: None,
    ) -> None:
        """`make`: makes a reader; `other`: another one to go on with, where it is better for this span."""
        self._make, self._other = make, other
        self._readers: OrderedDict[str, ExactReader[B]] = OrderedDict()

    def get(self, lane: str) -> ExactReader[B] | None:
        """The lane's reader, None where it has none."""
        return self._readers.get(lane)

    def of(self, request: Request | Keep, start: Offsets) -> ExactReader[B]:
        """The lane's reader; a new one begins at `start`."""
        lane = request.lane
        reader = self._readers.get(lane)
        if reader is None:
            reader = self._begun(self._make(), request, start)
        if (other := self._other(reader, Span(start=start, end=request.span.end))) is not None:
            reader.close()
            reader = self._begun(other, request, start)
        self._readers.move_to_end(lane)
        while len(self._readers) > READERS:
            self._readers.popitem(last=False)[1].close()
        return reader

    def close(self) -> None:
        """Close the connections."""
        for reader in self._readers.values():
            reader.close()

    def _begun(self, reader: ExactReader[B], request: Request | Keep, start: Offsets) -> ExactReader[B]:
        reader.go_to(start, {tp: term for tp, term in request.terms.items() if tp in start})
        self._readers[request.lane] = reader
        return reader
