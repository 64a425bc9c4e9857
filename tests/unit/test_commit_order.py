"""Several topics in the order of the source's commits: what may be applied while a part of them is still unread."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.align.commit_order import CommitOrder
from app.errors import ExitStatus, TooManyHeld
from app.kafka.unread import First, Place, UnreadMessages
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.model.row_layout import SEPARATOR, RowKind
from tests.decoded import table_of

#: places of each topic's messages in the order of their offsets; None: a message that has none
Log = Mapping[str, list[Place | None]]
TOPICS: tuple[str, ...] = ("a", "b", "c")


@dataclass
class Kafka(UnreadMessages):
    """Topics as a lane finds them."""

    log: Log
    #: number of messages that were read
    looks: int = 0

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: len(self.log[tp.topic]) for tp in partitions}

    def first(self, start: Position, end: int) -> First | None:
        self.looks += 1
        places = [place for place in self.log[start.topic][start.offset : end] if place is not None]
        return First(place=places[0] if places else None, is_read=False) if end > start.offset else None


def rows(log: Log, start: Mapping[str, int], end: Mapping[str, int]) -> pa.Table:
    """Decoded."""
    return table_of(
        [
            {
                "topic": topic,
                "partition": 0,
                "offset": offset,
                "layout": SEPARATOR.join([RowKind.UPSERT, "", "public", topic, "id"]),
                "line": "1\n",
                "sequence": None if (place := log[topic][offset]) is None else json.dumps([str(one) for one in place]),
            }
            for topic in log
            for offset in range(start[topic], end[topic])
        ]
    )


def offsets(of: Mapping[str, int]) -> Offsets:
    return Offsets.of({TopicPartition(topic, 0): offset for topic, offset in of.items()})


def order(log: Log, limit: int = 1000, *, foreign_keys: bool = True) -> tuple[CommitOrder, Kafka]:
    kafka = Kafka(log)
    return CommitOrder("lane", limit, kafka, lambda: foreign_keys), kafka


def cut(of: CommitOrder, log: Log, start: Mapping[str, int], end: Mapping[str, int]) -> dict[str, int]:
    """First offset of each topic that waits."""
    of.begin()
    found = of.cut(rows(log, start, end), Span(start=offsets(start), end=offsets(end)))
    return {tp.topic: offset for tp, offset in found.items()}


@st.composite
def logs(draw: st.DrawFn) -> tuple[Log, list[tuple[str, int]]]:
    """What a source has sent, each message from a later place than the one before; the order of sending."""
    log: dict[str, list[Place | None]] = {topic: [] for topic in TOPICS}
    sent: list[tuple[str, int]] = []
    for number, topic in enumerate(draw(st.lists(st.sampled_from(TOPICS), max_size=30))):
        sent.append((topic, len(log[topic])))
        log[topic].append((1 + number // 3, 10 + number))
        if draw(st.integers(0, 4)) == 0:
            log[topic].append(None)
    return log, sent


@given(logs(), st.data())
def test_nothing_is_applied_before_what_precedes_it(
    sent: tuple[Log, list[tuple[str, int]]], data: st.DataObject
) -> None:
    """Epochs of any size; at the end, with everything read, everything is applied."""
    log, in_order = sent
    applied, read = dict.fromkeys(TOPICS, 0), dict.fromkeys(TOPICS, 0)
    of, _ = order(log)
    while any(read[topic] < len(log[topic]) for topic in TOPICS):
        for topic in TOPICS:
            left = len(log[topic]) - read[topic]
            read[topic] += data.draw(st.integers(min(1, left), left))
        waiting = cut(of, log, applied, read)
        assert all(applied[topic] <= first < read[topic] for topic, first in waiting.items())
        applied = {topic: waiting.get(topic, read[topic]) for topic in TOPICS}
        is_applied = [offset < applied[topic] for topic, offset in in_order]
        is_read = [offset < read[topic] for topic, offset in in_order]
        first_unread = is_read.index(False) if False in is_read else len(is_read)
        # exactly what precedes everything unread, no less
        assert is_applied == [index < first_unread for index in range(len(in_order))]
    assert applied == {topic: len(log[topic]) for topic in TOPICS}


def test_a_topic_that_is_read_to_its_end_bounds_nothing_and_is_not_read_again() -> None:
    log: Log = {"a": [(1, 1)], "b": [(1, 2), (1, 3), (1, 4)]}
    of, kafka = order(log)
    assert cut(of, log, {"a": 0, "b": 0}, {"a": 1, "b": 2}) == {}
    assert kafka.looks == 0


def test_what_is_unread_is_fetched_only_where_what_was_read_last_holds_something() -> None:
    """A message that has just come to a quiet topic is from a later place than all others."""
    log: Log = {"a": [(1, 1), (1, 9)], "b": [(1, 2), (1, 3)]}
    of, kafka = order(log)
    assert cut(of, log, {"a": 0, "b": 0}, {"a": 1, "b": 2}) == {}
    assert kafka.looks == 1


def test_a_topic_without_places_bounds_nothing() -> None:
    log: Log = {"a": [None, None, None], "b": [(1, 2), (1, 3)]}
    of, _ = order(log)
    assert cut(of, log, {"a": 0, "b": 0}, {"a": 1, "b": 1}) == {}


def test_equal_places_say_nothing_of_each_other() -> None:
    """Rows of a snapshot: who comes first is found out by the target."""
    log: Log = {"a": [(0, 5)] * 9, "b": [(0, 5)] * 9}
    of, _ = order(log)
    assert cut(of, log, {"a": 0, "b": 0}, {"a": 4, "b": 4}) == {}


def test_more_than_may_be_held_stop_the_lane() -> None:
    log: Log = {"a": [(1, 1), (1, 2)], "b": [(2, number) for number in range(3, 9)]}
    of, _ = order(log, limit=4)
    with pytest.raises(TooManyHeld, match=r"5 messages, from b\[0\]@0 on.*unread in a\[0\] \(1 unread\)") as stopped:
        cut(of, log, {"a": 0, "b": 0}, {"a": 1, "b": 5})
    assert stopped.value.exit_status is ExitStatus.TRANSACTION
    assert "epoch.max_held_messages" in str(stopped.value)
    assert cut(of, log, {"a": 0, "b": 0}, {"a": 1, "b": 4}) == {"b": 0}


def test_without_foreign_keys_what_is_too_much_is_applied() -> None:
    log: Log = {"a": [(1, 1), (1, 2)], "b": [(2, number) for number in range(3, 9)]}
    of, _ = order(log, limit=4, foreign_keys=False)
    assert cut(of, log, {"a": 0, "b": 0}, {"a": 1, "b": 5}) == {}
    assert cut(of, log, {"a": 0, "b": 0}, {"a": 1, "b": 4}) == {"b": 0}


def test_none_are_held_where_none_may_be() -> None:
    log: Log = {"a": [(1, 1), (1, 2)], "b": [(2, 3)]}
    of, _ = order(log, limit=0)
    assert cut(of, log, {"a": 0, "b": 0}, {"a": 1, "b": 1}) == {}
