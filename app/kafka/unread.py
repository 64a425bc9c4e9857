"""The messages of Kafka that a lane has not read: their end, and the place in the source where they begin."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from app.kafka.broker import Broker
from app.model.message import RawMessage
from app.model.offsets import Position, TopicPartition
from app.model.rows import SEQUENCE

#: messages that are searched for one with a place; one without (a heartbeat, a tombstone) stays with the one before
_LOOK = 20

#: (commit lsn before, lsn): Debezium's `source.sequence`
Place = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class First:
    """The first unread message of a topic that has a place in the source."""

    #: None: none of the first messages has one
    place: Place | None
    #: whether it is a row of a snapshot
    is_read: bool


class UnreadMessages:
    """Reads from the broker. The messages are not decoded: they are not under guard."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Next offset of each partition that a read_committed reader will see."""
        return self._broker.ends(partitions)

    def first(self, start: Position, end: int) -> First | None:
        """First message from `start` up to `end` that has a place, else the first one; None where there are none
        (offsets have gaps)."""
        read = self._broker.messages(start, min(_LOOK, end - start.offset))
        messages = [one for one in read if one.position.offset < end]
        found = [one for one in map(_first, messages) if one.place is not None]
        if found:
            return found[0]
        return _first(messages[0]) if messages else None


def place_of(sequence: str | None) -> Place | None:
    """Parse `source.sequence`; None for none, and for what does not look like one."""
    found = re.match(SEQUENCE, sequence or "", re.ASCII)
    return (int(found["commit"] or 0), int(found["lsn"] or 0)) if found else None


def _first(message: RawMessage) -> First:
    value: Any = None
    with suppress(ValueError, RecursionError):
        value = json.loads(message.value or b"null")
    body = _map(_map(value).get("payload", value))
    sequence = _map(body.get("source")).get("sequence")
    place = place_of(sequence) if isinstance(sequence, str) else None
    return First(place=place, is_read=body.get("op") == "r")


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
