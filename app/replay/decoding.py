"""Who decodes a replay's messages: this process, whoever does it for the lane; Spark only where there is SQL of its."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from app.config.settings import Align, Settings
from app.decode.decoding import Decoding
from app.decode.driver import DriverDecoder
from app.kafka.broker import RawMessage
from app.kafka.spans import Batch
from app.model.offsets import Position
from app.transform.stage import in_driver


class Decodes(Protocol):
    """Gives rows as `app.model.rows` says. Errors are of verdict POISON where a message may be the cause."""

    def rows(self, batches: Sequence[Batch]) -> pa.Table:
        """Of messages that were read."""
        ...

    def stored(self, messages: Sequence[RawMessage]) -> pa.Table:
        """Of messages that somebody has kept."""
        ...


class _BySpark:
    """Each span is a job of its own."""

    def __init__(self, settings: Settings) -> None:
        from app.supervise.jvm import start_lanes_jvm

        jvm = start_lanes_jvm(settings)
        from app.decode.debezium import DebeziumJson  # Spark's imports take long, and few replays need them
        from app.source.by_spark import SparkMessages
        from app.spark.session import make_session
        from app.transform.sql import Sql
        from app.transform.stage import collector

        self.session = make_session(jvm)
        decoder = DebeziumJson(Sql(self.session, settings.sql), transactions=_transactions(settings))
        self._messages = SparkMessages(self.session, settings.source, decoder, collector(settings.transform))

    def rows(self, batches: Sequence[Batch]) -> pa.Table:
        """See `Decodes`."""
        return self._messages.stored([one for batch in batches for one in _messages(batch)])

    def stored(self, messages: Sequence[RawMessage]) -> pa.Table:
        """See `Decodes`."""
        return self._messages.stored(messages)


@contextmanager
def decoding(settings: Settings) -> Iterator[Decodes]:
    """Whatever is started for it ends with it."""
    if not settings.sql:
        decoder = DriverDecoder.of(settings.source, transactions=_transactions(settings))
        yield Decoding(decoder, in_driver(settings.transform))
        return
    from app.spark.session import stop_session

    by_spark = _BySpark(settings)
    try:
        yield by_spark
    finally:
        stop_session(by_spark.session)


def _transactions(settings: Settings) -> bool:
    return settings.epoch.align is Align.SOURCE_TRANSACTION


def _messages(batch: Batch) -> Iterator[RawMessage]:
    for offset, key, value in zip(batch.offsets, batch.keys, batch.values, strict=True):
        yield RawMessage(position=Position(*batch.tp, offset), key=key, value=value, headers=(), timestamp_ms=None)
