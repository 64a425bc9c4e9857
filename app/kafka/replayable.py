"""Whether Kafka still has everything from a position on, and for how long it will."""

import math
import time
from dataclasses import dataclass

from app.kafka.broker import Broker, Watermarks
from app.model.offsets import Offsets, Position, TopicPartition


@dataclass(frozen=True, kw_only=True)
class Replayable:
    """Whether a position is replayable, at one moment."""

    #: partitions with deleted messages that are kept nowhere else -> first offset that is left
    gone: dict[TopicPartition, int]
    #: partitions with deleted messages that are kept elsewhere -> first offset that is left
    elsewhere: dict[TopicPartition, int]
    #: offsets between the position and the end
    messages: int
    #: all of it stays at least so long; infinite without a limit, not-a-number when that is unknown
    headroom_seconds: float

    @property
    def ok(self) -> bool:
        return not self.gone


def replayable(broker: Broker, position: Offsets, kept_until: Offsets | None = None) -> Replayable:
    """Check the partitions of `position`; raises EnvironmentMissing when one does not exist.

    `kept_until`: the archive has everything from the position up to there (`app.recover.archive_reach`), so Kafka needs
    only what comes behind.
    """
    marks = broker.watermarks(position)
    needed = {tp: max(offset, (kept_until or position).get(tp, 0)) for tp, offset in position.items()}
    gone = {tp: mark.low for tp, mark in marks.items() if needed[tp] < mark.low}
    left = [_headroom(broker, tp, needed[tp], mark) for tp, mark in marks.items()]
    unknown = any(math.isnan(one) for one in left)
    return Replayable(
        gone=gone,
        elsewhere={tp: mark.low for tp, mark in marks.items() if position[tp] < mark.low <= needed[tp]},
        messages=position.left_to({tp: mark.high for tp, mark in marks.items()}),
        headroom_seconds=0.0 if gone else math.nan if unknown else min(left, default=math.inf),
    )


def _headroom(broker: Broker, tp: TopicPartition, offset: int, mark: Watermarks) -> float:
    """Seconds, not-a-number where unknown. Kafka deletes whole segments, by their newest message: never earlier than
    this."""
    kept = broker.retention(tp.topic)
    if kept.compacted or kept.bytes is not None:
        return math.nan  # depends on what is written
    if kept.milliseconds is None:
        return math.inf
    if not mark.low <= offset < mark.high:
        return kept.milliseconds / 1000
    found = broker.messages(Position(tp.topic, tp.partition, offset), 1)
    if not found:
        return kept.milliseconds / 1000
    stamp = found[0].timestamp_ms
    return math.nan if stamp is None else max(0.0, (stamp + kept.milliseconds) / 1000 - time.time())
