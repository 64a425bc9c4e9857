"""Whether Kafka still has the last message that a lane has applied, or another one at its offset.

A message that retention or compaction deleted cannot be compared, which is no fault. A topic that is not compacted has
every message from its first one on, so a missing message there was replaced by something that is no message.
"""

from collections.abc import Mapping

from app.errors import LogTruncated, OffsetMissing
from app.kafka.broker import Broker, Watermarks
from app.model.last import LastMessage, LastMessages
from app.model.offsets import Position, TopicPartition


def rewritten(
    broker: Broker, last: LastMessages, marks: Mapping[TopicPartition, Watermarks]
) -> dict[TopicPartition, str]:
    """Partitions whose log is not the one that was applied -> what is there now, in words."""
    each = {tp: _found(broker, tp, one, marks[tp]) for tp, one in last.items() if tp in marks}
    return {tp: words for tp, words in each.items() if words is not None}


def check_not_rewritten(
    broker: Broker, lane: str, last: LastMessages, marks: Mapping[TopicPartition, Watermarks]
) -> None:
    """Raises LogTruncated where a partition's log is not the one that was applied."""
    if found := rewritten(broker, last, marks):
        raise LogTruncated.of(describe_rewritten(found), lane=lane)


def describe_rewritten(found: Mapping[TopicPartition, str]) -> str:
    return "; ".join(f"{tp}: {words}" for tp, words in sorted(found.items()))


def _found(broker: Broker, tp: TopicPartition, last: LastMessage, mark: Watermarks) -> str | None:
    position = Position(*tp, last.offset)
    if mark.high <= last.offset:
        return f"offset {last.offset} was applied, and the log ends at {mark.high}"
    if last.offset < mark.low:
        return None
    try:
        message = broker.message(position)
    except OffsetMissing:  # deleted between the two requests
        return None
    if message is None:
        return _without_message(broker, position, last)
    now = message.last
    return f"offset {last.offset} was applied as {last}, and is now {now}" if last.is_other(now) else None


def _without_message(broker: Broker, position: Position, last: LastMessage) -> str | None:
    """Compaction may have removed the message; then compare the leader epoch that it was written in."""
    if not broker.retention(position.topic).compacted:
        return f"offset {last.offset} was applied as {last}, and has no message now"
    try:
        broker.check_term(position, last.leader_epoch)
    except LogTruncated as error:
        return (
            f"offset {last.offset} was applied as {last}, and the log of that leader epoch ended before: {error.where}"
        )
    return None
