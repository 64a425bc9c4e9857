"""Finds where source transactions end, from Debezium's transaction metadata (`provide.transaction.metadata`).

Each change names its transaction, and markers are written at a transaction's begin and end. With one topic for
everything a transaction is complete when its end marker or a change of another transaction has come. With a topic for
each table the end marker has the number of changes of each table; changes of tables that the lane does not read are not
waited for.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from app.errors import ConfigInvalid
from app.model.arrow import Indices, compute, single
from app.model.offsets import Position, TopicPartition
from app.model.row_layout import RowKind

_NONE = -1


def held_from(rows: pa.Table, topics: Collection[str], lane: str) -> dict[TopicPartition, int]:
    """First offset of each topic that has to wait, with all that follow it, for the rest of a transaction.

    `rows` as in `app.model.rows`, in any order; `topics`: all topics of the lane, each with one partition. Raises
    ConfigInvalid for a change that names no transaction.
    """
    _check(rows, lane)
    seen = _Seen.of(rows)
    if not len(seen.ids):
        return {}
    waiting = seen.incomplete(topics) if len(topics) > 1 else seen.last_open()
    firsts = seen.behind(waiting)
    places = {topic: TopicPartition(seen.topics[topic], int(seen.partitions[at])) for topic, at in firsts.items()}
    return {places[topic]: int(seen.offsets[at]) for topic, at in firsts.items()}


@dataclass(frozen=True)
class _Seen:
    """The rows sorted by topic, then offset. Transactions have numbers, _NONE for none."""

    topics: list[str]
    topic: Indices
    partitions: Indices
    offsets: Indices
    ids: list[str]
    #: of each row; a message that names none (a tombstone) takes that of the message before it
    transaction: Indices
    #: of each row: place of a change in its transaction, below 0 where it has none; 0 for other messages
    place: Indices
    #: transaction -> `data_collections` of its end marker
    ends: Mapping[int, str]

    @classmethod
    def of(cls, rows: pa.Table) -> "_Seen":
        topics = single(rows["topic"]).dictionary_encode()
        codes, offsets = topics.indices.to_numpy(zero_copy_only=False), rows["offset"].to_numpy()
        order = np.lexsort((offsets, codes))
        metadata = single(rows["transaction"]).take(pa.array(order))
        ids = compute.struct_field(metadata, "id").dictionary_encode()
        named = compute.fill_null(ids.indices, _NONE).to_numpy(zero_copy_only=False).astype(np.int64)
        place = compute.fill_null(compute.struct_field(metadata, "place"), 0).to_numpy(zero_copy_only=False)
        is_change = compute.is_valid(rows["is_read"]).to_numpy()[order]
        # a change without a valid place gets one of its own, so that it counts
        place = np.where(is_change & (place <= 0), -1 - offsets[order], place)
        parts = compute.struct_field(metadata, "parts")
        ends = np.flatnonzero(compute.is_valid(parts).to_numpy(zero_copy_only=False))
        return cls(
            topics=topics.dictionary.to_pylist(),
            topic=codes[order],
            partitions=rows["partition"].to_numpy()[order],
            offsets=offsets[order],
            ids=ids.dictionary.to_pylist(),
            transaction=_filled(named, codes[order]),
            place=place,
            ends=dict(zip(named[ends].tolist(), parts.take(pa.array(ends)).to_pylist(), strict=True)),
        )

    def last_open(self) -> set[int]:
        """With a single topic: its last transaction, unless the end marker has come."""
        last = int(self.transaction[-1])
        return set() if last == _NONE or last in self.ends else {last}

    def incomplete(self, topics: Collection[str]) -> set[int]:
        """With several topics: transactions without end marker, and those of which a topic lacks changes."""
        changes = np.flatnonzero(self.place)
        counted: dict[tuple[int, str], int] = {}
        columns = (self.transaction[changes], self.topic[changes], self.place[changes])
        for transaction, topic, _ in np.unique(np.stack(columns), axis=1).T.tolist():  # a duplicate counts once
            counted[transaction, self.topics[topic]] = counted.get((transaction, self.topics[topic]), 0) + 1
        open_ = set(range(len(self.ids))) - self.ends.keys()
        for transaction, parts in self.ends.items():
            wanted = _wanted(parts, topics)
            if any(counted.get((transaction, topic), 0) < count for topic, count in wanted.items()):
                open_.add(transaction)
        return open_

    def behind(self, waiting: set[int]) -> dict[int, int]:
        """Topic -> index of its first row that waits. All rows behind that wait too, and so do their transactions in
        other topics."""
        waits = np.zeros(len(self.ids) + 1, bool)  # the last is _NONE's
        waits[list(waiting)] = True
        bounds = np.flatnonzero(np.diff(self.topic, prepend=_NONE, append=_NONE))
        while True:
            firsts: dict[int, int] = {}
            before = int(waits.sum())
            for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
                found = np.flatnonzero(waits[self.transaction[begin:end]])
                if len(found):
                    firsts[int(self.topic[begin])] = first = begin + int(found[0])
                    waits[self.transaction[first:end]] = True
                    waits[_NONE] = False
            if int(waits.sum()) == before:
                return firsts


def _check(rows: pa.Table, lane: str) -> None:
    """Raise ConfigInvalid for a change without transaction. Rows of a snapshot have none."""
    silent = compute.and_(compute.fill_null(compute.invert(rows["is_read"]), False), rows["transaction"].is_null())
    for kind in (RowKind.MALFORMED, RowKind.FILTERED):
        silent = compute.and_(silent, compute.invert(compute.starts_with(rows["layout"], str(kind))))
    at = compute.index(silent, True).as_py()
    if at >= 0:
        topic, partition, offset = (rows[name][at].as_py() for name in ("topic", "partition", "offset"))
        raise ConfigInvalid(
            f"lane {lane}: epoch.align is source-transaction, but message {Position(topic, partition, offset)} does "
            "not say which transaction it is of",
            hint="set provide.transaction.metadata: true at the connector. For what it wrote before that, "
            "set epoch.align: none until the lane is past it",
        )


def _wanted(parts: str, topics: Collection[str]) -> dict[str, int]:
    """Number of changes of each topic, from a transaction's end marker; a topic is named after its table."""
    wanted: dict[str, int] = {}
    for name, count in _parts(parts):
        for topic in topics:
            if topic == name or topic.endswith(f".{name}"):
                wanted[topic] = wanted.get(topic, 0) + count
    return wanted


def _parts(parts: str) -> Iterator[tuple[str, int]]:
    """Name and count of each data collection. Anything else is left out, so that nothing waits for it."""
    try:
        found = json.loads(parts)
    except (ValueError, RecursionError):
        return
    for part in found if isinstance(found, list) else ():
        if isinstance(part, dict):
            name, count = part.get("data_collection"), part.get("event_count")
            if isinstance(name, str) and type(count) is int and count >= 0:
                yield name, count


def _filled(transaction: Indices, topic: Indices) -> Indices:
    """Give rows without transaction that of the row before them in their topic."""
    at = np.where(transaction == _NONE, 0, np.arange(len(transaction)))
    np.maximum.accumulate(at, out=at)
    return np.where(topic[at] == topic, transaction[at], _NONE) if len(at) else transaction
