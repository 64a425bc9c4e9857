"""What reads and decodes a lane's messages: Spark's tasks, or the driver itself (`source.decode`)."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from app.apply.arrange import Epoch
from app.kafka.broker import RawMessage
from app.model.last import LastMessage
from app.model.offsets import Offsets, Span, TopicPartition


class Messages(Protocol):
    """Tables are as `app.model.rows` says. Errors are SurelaneErrors, of verdict POISON where a message may be the
    cause."""

    def query(self, messages: DataFrame) -> DataFrame:
        """What the streaming query makes of Kafka's rows."""
        ...

    def go_to(self, start: Offsets, terms: Mapping[TopicPartition, int]) -> None:
        """Where what is read first begins, known before there is a query. `terms`: leader epoch of the message before
        it, where it is known."""
        ...

    def last(self, tp: TopicPartition, end: int) -> LastMessage | None:
        """What identifies the last message before `end`; None: it was not remembered."""
        ...

    def epoch(self, frame: DataFrame, span: Span) -> pa.Table:
        """Every row of the epoch that the streaming query has planned; `frame` is what `query` made for it."""
        ...

    def arranged(self, rows: pa.Table) -> Epoch:
        """What `epoch` gave, in the lane's order; it may have been arranged ahead."""
        ...

    def part(self, span: Span) -> pa.Table:
        """The rows of some span, wherever it is."""
        ...

    def stored(self, messages: Sequence[RawMessage]) -> pa.Table:
        """The rows of messages that somebody has kept."""
        ...

    def close(self) -> None:
        """Give up what is held."""
        ...
