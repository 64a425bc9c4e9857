"""Applies the topics of one lane in the order of the source's commits, across epochs too.

Spark reads topics in proportion to their backlogs, so an epoch may have a child row whose parent is still unread in
another topic. As in stream processing, unread messages bound what may be applied: nothing unread in a topic is from
before the place of its first unread message, so rows beyond the lowest such place are held for the next epoch. A topic
that is read to its end bounds nothing; neither do messages without a place (heartbeats, transaction markers, a source
without `source.sequence`), nor equal places (rows of a snapshot).

Where places do not decide, the target's foreign keys do: when one is violated while an unread message of another topic
may still satisfy it, the message is refused for now only (`is_early`). The epoch is rolled back and applied without it
and what follows it in its topic. So all topics have to be of one source: places of two sources are not comparable.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa
import structlog

from app.db.sqlstate import sqlstate
from app.epoch.epoch_batch import EpochBatch, source_places
from app.errors import TooManyHeld
from app.kafka.unread import First, Place, UnreadMessages, place_of
from app.model.arrow import Indices, single
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.model.rows import is_behind

log = structlog.get_logger()

FOREIGN_KEY_VIOLATION = "23503"


class ComesEarly(Exception):  # not an error: the epoch is applied once more, without the message
    """A message refers to one that may be unread in another topic."""

    def __init__(self, position: Position) -> None:
        super().__init__(str(position))
        self.position = position


class CommitOrder:
    """Order between the topics of one lane. Used by the lane's thread only."""

    def __init__(self, lane: str, limit: int, unread: UnreadMessages, has_foreign_keys: Callable[[], bool]) -> None:
        """`limit`: maximum number of held messages; 0: none are held, and the source's order is kept within an epoch
        only. `has_foreign_keys`: whether the target may refuse a message that comes too early."""
        self._lane, self._limit, self._unread, self._has_foreign_keys = lane, limit, unread, has_foreign_keys
        #: ends of the topics with unread messages, and where the unread messages begin
        self._ends: Mapping[TopicPartition, int] = {}
        self._read = Offsets()
        self._firsts: dict[TopicPartition, First | None] = {}
        #: first offset to wait in each topic, where the target has refused a message for now
        self._early: dict[TopicPartition, int] = {}
        #: position of such a message -> ends of the topics when it was first refused
        self._refused: dict[Position, Mapping[TopicPartition, int]] = {}
        self._rows = pa.table({})
        #: first offset of each topic that waits for another one, after the last epoch
        self.waiting: Mapping[TopicPartition, int] = {}

    def begin(self) -> None:
        """Start an epoch: forget what is known of unread messages."""
        self._ends, self._firsts, self._early = {}, {}, {}

    def cut(self, rows: pa.Table, span: Span) -> dict[TopicPartition, int]:
        """First offset of each topic that has to wait, with all that follow it. `rows`: everything read and not
        applied, in any order. Raises TooManyHeld."""
        if len(span.end) < 2 or not self._limit:
            return {}
        if not self._early:  # the first time in this epoch
            ends = self._unread.ends(span.end)
            self._ends = {tp: end for tp, end in ends.items() if span.end[tp] < end}
            self._read, self._rows = span.end, rows
        waiting = _lowest(self._beyond(rows), self._early)
        held = int(np.sum(is_behind(rows, waiting).to_numpy())) if waiting else 0
        if held > self._limit:
            waiting = self._too_many(held, waiting)
        self.waiting = waiting
        return waiting

    def is_early(self, epoch: EpochBatch, ordinal: int, error: Exception) -> bool:
        """Whether this message, which the target refuses, may refer to an unread one of another topic."""
        if sqlstate(error) != FOREIGN_KEY_VIOLATION:
            return False
        position = epoch.position(ordinal)
        others = self._ends.keys() - {position.tp}
        if not others or int(np.sum(is_behind(self._rows, {position.tp: position.offset}).to_numpy())) > self._limit:
            return False
        is_read = bool(epoch.rows["is_read"][ordinal].as_py())
        place = place_of(epoch.rows["sequence"][ordinal].as_py())
        return any(self._may_precede(tp, position, place, is_read=is_read) for tp in sorted(others))

    def postpone(self, position: Position) -> None:
        """End the epoch before this message, too."""
        self._early[position.tp] = position.offset
        log.info("waits for another topic", lane=self._lane, position=str(position))

    def keep(self, end: Offsets) -> None:
        """The epoch was written up to `end`: forget the refusals before it."""
        self._refused = {at: ends for at, ends in self._refused.items() if at.offset >= end.get(at.tp, 0)}
        self._rows = pa.table({})

    def _beyond(self, rows: pa.Table) -> dict[TopicPartition, int]:
        """First offset of each topic that is from a later place than an unread message. The bound is the place of the
        last message read of each topic; where that holds anything, that of the first unread one of the lowest topic."""
        if not self._ends:
            return {}
        topics = by_topic(rows, self._read)
        bounds = {tp: topics[tp].last if tp in topics else None for tp in self._ends}
        while True:
            for tp in [tp for tp, bound in bounds.items() if bound is None]:
                self._sharpen(tp, bounds)
            if not bounds:
                return {}
            lowest = min(bounds, key=lambda tp: bounds[tp] or (0, 0))
            waiting = beyond(topics, bounds[lowest] or (0, 0))
            if not waiting or lowest in self._firsts:
                return waiting
            self._sharpen(lowest, bounds)

    def _sharpen(self, tp: TopicPartition, bounds: dict[TopicPartition, Place | None]) -> None:
        first = self._first(tp)
        if first is None or first.place is None:
            del bounds[tp]
        else:
            bounds[tp] = max(first.place, bounds[tp] or (0, 0))

    def _first(self, tp: TopicPartition) -> First | None:
        if tp not in self._firsts:
            self._firsts[tp] = self._unread.first(Position(*tp, self._read[tp]), self._ends[tp])
        return self._firsts[tp]

    def _may_precede(self, tp: TopicPartition, position: Position, place: Place | None, *, is_read: bool) -> bool:
        """Whether unread messages of `tp` may be from before `place`. Where no order is known, only those count that
        existed when the message at `position` was first refused."""
        first = self._first(tp)
        if first is None:
            return False
        if is_read and first.is_read:
            return True
        if place is None or first.place is None or not (place[0] and first.place[0]):
            return self._read[tp] < self._refused.setdefault(position, self._ends).get(tp, 0)
        return first.place <= place

    def _too_many(self, held: int, waiting: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not self._has_foreign_keys():
            log.warning("applied without the order between topics", lane=self._lane, waiting=held)
            return {}
        begin = ", ".join(str(Position(*tp, offset)) for tp, offset in sorted(waiting.items()))
        behind = ", ".join(f"{tp} ({end - self._read[tp]} unread)" for tp, end in sorted(self._ends.items()))
        raise TooManyHeld(
            f"lane {self._lane}: {held} messages, from {begin} on, are from later in the source than what is unread in "
            f"{behind}; epoch.max_held_messages is {self._limit}. Nothing of the epoch was applied.",
            hint="raise epoch.max_held_messages (a stage process keeps them in memory), or let Debezium route all "
            "tables to one topic. 0: epochs keep the order within each topic only, and a message whose foreign key "
            "comes too early goes into quarantine",
        )


class Places:
    """Places of one topic's messages, in the order of their offsets."""

    def __init__(self, offsets: Indices, commits: Indices, lsns: Indices) -> None:
        self._offsets, self._commits, self._lsns = offsets, commits, lsns

    @property
    def last(self) -> Place | None:
        """Place of the last message; None where no message has one."""
        found = int(self._commits[-1]), int(self._lsns[-1])
        return found if found != (0, 0) else None

    def beyond(self, bound: Place) -> int | None:
        """Offset of the first message from a later place than `bound`."""
        is_later = (self._commits > bound[0]) | ((self._commits == bound[0]) & (self._lsns > bound[1]))
        at = int(np.argmax(is_later))
        return int(self._offsets[at]) if is_later[at] else None


def by_topic(rows: pa.Table, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Places]:
    """Places of each topic that has messages; each topic has one partition."""
    if not rows.num_rows:
        return {}
    names = single(rows["topic"]).dictionary_encode()
    codes, offsets = names.indices.to_numpy(zero_copy_only=False), rows["offset"].to_numpy()
    order = np.lexsort((offsets, codes))
    codes, offsets = codes[order], offsets[order]
    commits, lsns = source_places(single(rows["sequence"]).take(pa.array(order)), codes)
    numbers = {name: number for number, name in enumerate(names.dictionary.to_pylist())}
    found: dict[TopicPartition, Places] = {}
    for tp in partitions:
        if (number := numbers.get(tp.topic)) is not None:
            begin, end = np.searchsorted(codes, (number, number + 1))
            found[tp] = Places(offsets[begin:end], commits[begin:end], lsns[begin:end])
    return found


def beyond(topics: Mapping[TopicPartition, Places], bound: Place) -> dict[TopicPartition, int]:
    """Offset of the first message of each topic from a later place than `bound`."""
    firsts = {tp: places.beyond(bound) for tp, places in topics.items()}
    return {tp: first for tp, first in firsts.items() if first is not None}


def _lowest(one: Mapping[TopicPartition, int], other: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {tp: min(each[tp] for each in (one, other) if tp in each) for tp in one.keys() | other.keys()}
