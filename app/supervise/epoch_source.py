"""The messages of one epoch: all of them as the streaming query planned them, or a part of them by its offsets."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from app.kafka.broker import Broker, RawMessage
from app.model.offsets import Position, Span
from app.supervise.spark_errors import spark_errors


@dataclass(frozen=True)
class EpochSource:
    """See `app.lane.reading.Source`."""

    planned: Callable[[], pa.Table]
    read: Callable[[Span], pa.Table]
    broker: Broker

    def all(self) -> pa.Table:
        """Every row of the epoch."""
        with spark_errors():
            return self.planned()

    def part(self, span: Span) -> pa.Table:
        """The rows of a part of it."""
        with spark_errors():
            return self.read(span)

    def message(self, position: Position) -> RawMessage | None:
        """One message as it lies in Kafka."""
        return self.broker.message(position)
