"""Messages that Spark has not planned an epoch with yet. A lane whose target decides alone need not wait for that."""

from collections.abc import Callable

from app.errors import MessagesGone
from app.kafka.broker import Broker
from app.model.offsets import Offsets, Span, TopicPartition


class Unplanned:
    """What Kafka has behind the messages that a lane has read."""

    def __init__(self, broker: Broker, lane: str) -> None:
        self._broker, self._lane = broker, lane
        #: waits for the ends that were requested last
        self._ends: Callable[[], dict[TopicPartition, int]] | None = None

    def ask(self, partitions: Offsets) -> None:
        """Request the ends of these partitions: `span` finds the answer there."""
        self._ends = self._broker.ask_ends(partitions)

    def span(self, read: Offsets) -> Span:
        """From `read` to the end of each partition; empty where there is nothing. Raises Unreachable, MessagesGone
        where Kafka ends before `read`, and EnvironmentMissing for a topic that is gone."""
        asked, self._ends = self._ends, None
        found = _behind(read, asked()) if asked is not None else None
        if found is not None and found.size:
            return found
        ends = self._broker.ends(read)
        if shorter := {tp: end for tp, end in ends.items() if end < read[tp]}:
            raise MessagesGone.of(f"from {read} on, where Kafka ends at {Offsets.of(shorter)}", lane=self._lane)
        return _behind(read, ends)


def rest(planned: Span, read: Offsets) -> Span:
    """What is left of a planned span, of which messages before `read` are applied."""
    start, end = (
        Offsets.of({tp: max(offset, read.get(tp, 0)) for tp, offset in of.items()})
        for of in (planned.start, planned.end)
    )
    return Span(start=start, end=end)


def _behind(read: Offsets, ends: dict[TopicPartition, int]) -> Span:
    return Span(start=read, end=Offsets.of({tp: max(offset, ends[tp]) for tp, offset in read.items()}))
