"""Bounds of a replay: a position, a time, or an epoch of the lane.

    position    shop.cdc[0]@42, several with commas; {"shop.cdc": {"0": 42}}; 42, where there is one partition
                earliest, latest: the first message that exists, and the end
    time        30m, 2h, 7d ago, or 2026-01-31T12:00:00Z: by the timestamps of the messages
    epoch       epoch:17, epoch:3:17 (of generation 3), epoch:last: by the rows of the lane's ledger

A position is the next message to read. So the message at `from` is applied, and the one at `to` is not. An epoch gives
its start for `from` and its end for `to`, a time the first message that is not older for both.
"""

import datetime
import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from app.errors import Diverged, Refused
from app.kafka.broker import Watermarks
from app.ledger.store import Ledger
from app.model.epoch import EpochRecord
from app.model.moment import moment
from app.model.offsets import Offsets, TopicPartition
from app.replay.origin import Origin

_POSITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)\[(?P<partition>\d+)\]@(?P<offset>\d+)")
_EPOCH = re.compile(r"epoch:(?:(?P<generation>\d+):)?(?P<epoch>\d+|last)")
EXAMPLE = "shop.cdc[0]@42, 2h, 2026-01-31T12:00:00Z or epoch:17"


class RangeSide(enum.StrEnum):
    FROM = "from"
    TO = "to"


class RangeEnd(enum.Enum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class EpochOf:
    """An epoch of the ledger; generation None: the only one that has it, epoch None: the last one."""

    generation: int | None
    epoch: int | None


@dataclass(frozen=True)
class Bound:
    """A bound as it was typed, and its meaning; an int is an offset of the only partition."""

    text: str
    meaning: Offsets | int | datetime.datetime | EpochOf | RangeEnd

    @classmethod
    def parse(cls, text: str) -> "Bound":
        """Raises ValueError."""
        return cls(text, _meaning(text.strip()))


def _meaning(text: str) -> Offsets | int | datetime.datetime | EpochOf | RangeEnd:
    if text in {one.value for one in RangeEnd}:
        return RangeEnd(text)
    if text.isdecimal():
        return int(text)
    if text.startswith("{"):
        return Offsets.from_json(text)
    if found := _EPOCH.fullmatch(text):
        generation, epoch = found["generation"], found["epoch"]
        if epoch == "last" and generation is not None:
            raise ValueError("epoch:last is of no generation")
        return EpochOf(int(generation) if generation else None, None if epoch == "last" else int(epoch))
    if "@" in text:
        return _positions(text)
    return moment(text)


def _positions(text: str) -> Offsets:
    found: dict[TopicPartition, int] = {}
    for part in text.split(","):
        one = _POSITION.fullmatch(part.strip())
        if one is None:
            raise ValueError(f"{part.strip()!r} is not topic[partition]@offset")
        found[TopicPartition(one["topic"], int(one["partition"]))] = int(one["offset"])
    return Offsets.of(found)


@dataclass(frozen=True)
class Known:
    """Resolves bounds to positions."""

    origin: Origin
    #: to the lane's target
    connection: Connection
    ledgers: Sequence[Ledger]

    def position(self, bound: Bound, side: RangeSide) -> Offsets:
        """Offsets of every existing partition. Raises Refused for a bound that does not fit, Diverged for a time from
        which on some messages are gone."""
        marks = self.origin.held()
        meaning = bound.meaning
        if isinstance(meaning, RangeEnd):
            return Offsets.of(
                {tp: mark.low if meaning is RangeEnd.EARLIEST else mark.high for tp, mark in marks.items()}
            )
        if isinstance(meaning, int):
            return self._only(meaning, marks, side)
        if isinstance(meaning, Offsets):
            return _complete(meaning, marks, side)
        if isinstance(meaning, datetime.datetime):
            return self._at(meaning, marks, bound, side)
        found = self._epoch(meaning, bound, side)
        return Offsets.of({tp: found.get(tp, 0) for tp in marks})

    def _only(self, offset: int, marks: Mapping[TopicPartition, Watermarks], side: RangeSide) -> Offsets:
        if len(marks) != 1:
            raise Refused(
                f"--{side} is a single offset, and the lane reads {len(marks)} partitions",
                hint="give one of each: " + ", ".join(f"{tp}@OFFSET" for tp in sorted(marks)),
            )
        return Offsets.of(dict.fromkeys(marks, offset))

    def _at(
        self, time: datetime.datetime, marks: Mapping[TopicPartition, Watermarks], bound: Bound, side: RangeSide
    ) -> Offsets:
        found = self.origin.at(int(time.timestamp() * 1000))
        if side is RangeSide.TO:
            return found
        doubtful = [tp for tp, mark in marks.items() if 0 < mark.low == found[tp]]
        if doubtful:  # messages before the first one that exists may be of that time, too
            lost = ", ".join(f"{tp} 0 to {marks[tp].low - 1}" for tp in sorted(doubtful))
            raise Diverged(
                f"--from {bound.text}: {self.origin.name} no longer has {lost}, and it is unknown which of them are "
                f"of {time.isoformat()} or later",
                hint="name a later time, or a position: --from earliest is the first message that is left",
            )
        return found

    def _epoch(self, wanted: EpochOf, bound: Bound, side: RangeSide) -> Offsets:
        if wanted.epoch is None:
            rows = [last for ledger in self.ledgers if (last := ledger.last(self.connection)) is not None]
            return Offsets.joined([row.span.start if side is RangeSide.FROM else row.span.end for row in rows])
        found = {ledger: ledger.numbered(self.connection, wanted.epoch) for ledger in self.ledgers}
        there = sorted({row.generation for rows in found.values() for row in rows})
        if wanted.generation is None and len(there) > 1:
            several = ", ".join(f"epoch:{generation}:{wanted.epoch}" for generation in there)
            raise Refused(f"--{side} {bound.text}: several generations have it", hint=f"say which: {several}")
        generation = there[0] if wanted.generation is None and there else wanted.generation
        if generation not in there:
            hint = "surelane.ledger has those that are known; a position or a time does without it"
            raise Refused(f"--{side} {bound.text}: the lane's ledger has no such epoch", hint=hint)
        each = [self._of(ledger, rows, generation, wanted.epoch, side) for ledger, rows in found.items()]
        return Offsets.joined([one for one in each if one is not None])

    def _of(
        self, ledger: Ledger, rows: Sequence[EpochRecord], generation: int, epoch: int, side: RangeSide
    ) -> Offsets | None:
        """One lane's part of an epoch; a lane without a row of that epoch was at the end of its row before."""
        for row in rows:
            if row.generation == generation:
                return row.span.start if side is RangeSide.FROM else row.span.end
        before = ledger.before(self.connection, generation, epoch)
        return before.span.end if before else None


def check(start: Offsets, goal: Offsets, origin: Origin) -> None:
    """Raises Refused for a range that runs backwards or ends behind what the origin has."""
    marks = origin.held()
    beyond = [f"{tp}@{goal[tp]} (it ends at {mark.high})" for tp, mark in sorted(marks.items()) if goal[tp] > mark.high]
    if beyond:
        hint = "leave --to out, or write --to latest: up to the end"
        raise Refused(f"--to lies behind what {origin.name} has: {', '.join(beyond)}", hint=hint)
    backwards = [f"{tp}: {start[tp]} to {goal[tp]}" for tp in sorted(marks) if start[tp] > goal[tp]]
    if backwards:
        raise Refused(f"--from lies behind --to: {', '.join(backwards)}", hint="nothing was changed")


def _complete(given: Offsets, marks: Mapping[TopicPartition, Watermarks], side: RangeSide) -> Offsets:
    missing = [f"{tp}@OFFSET" for tp in sorted(marks) if tp not in given]
    strange = [str(tp) for tp in given if tp not in marks]
    if strange:
        raise Refused(f"--{side}: the lane does not read {', '.join(strange)}", hint="see source.topics")
    if missing:
        raise Refused(f"--{side} has not every partition", hint=f"add {', '.join(missing)}")
    return given
