"""Who decodes a replay's messages: this process. Spark says what SQL means, where there is some, and ends."""

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from app.config.settings import Align, Settings
from app.decode.decoding import Decoding
from app.decode.driver import DriverDecoder
from app.kafka.broker import RawMessage
from app.kafka.spans import Batch
from app.transform.sql import Rule, Sql
from app.transform.stage import in_driver


class Decodes(Protocol):
    """Gives rows as `app.model.rows` says. Errors are of verdict POISON where a message may be the cause."""

    def rows(self, batches: Sequence[Batch]) -> pa.Table:
        """Of messages that were read."""
        ...

    def stored(self, messages: Sequence[RawMessage]) -> pa.Table:
        """Of messages that somebody has kept."""
        ...


def _rules(settings: Settings) -> tuple[Rule, ...]:
    """Of the SQL."""
    if not settings.sql:
        return ()
    from app.supervise.jvm import start_lanes_jvm

    jvm = start_lanes_jvm(settings)
    from app.spark.session import make_session, stop_session  # Spark's imports take long, and few replays need them
    from app.transform.sql.analysis import rules_of

    session = make_session(jvm)
    try:
        return rules_of(session, settings.sql)
    finally:
        stop_session(session)


def decoding(settings: Settings) -> Decodes:
    """As the lane's."""
    decoder, rules = DriverDecoder(transactions=_transactions(settings)), _rules(settings)
    return Decoding(decoder, in_driver(settings.transform), Sql(rules, decoder.gone) if rules else None)


def _transactions(settings: Settings) -> bool:
    return settings.epoch.align is Align.SOURCE_TRANSACTION
