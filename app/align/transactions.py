"""Where source transactions end, as Debezium tells it (`provide.transaction.metadata`).

Each change names its transaction, and markers stand at a transaction's begin and end. In one topic that has everything
a transaction is whole when the marker of its end or a change of another transaction has come. Where each table has a
topic, the marker of the end says how many changes each table has; those of tables that the lane does not read are not
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
from app.model.rows import RowKind

_NONE = -1


def held_from(rows: pa.Table, topics: Collection[str], lane: str) -> dict[TopicPartition, int]:
    """First offset of each topic that has to wait, with all that follow it, for the rest of a transaction.

    `rows` as in `app.model.rows`, in any order; `topics`: all that the lane reads, each of one partition. Raises
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
    """The rows by topic, in each in the order of its offsets; one number for each transaction, _NONE for none."""

    topics: list[str]
    topic: Indices
    partitions: Indices
    offsets: Indices
    ids: list[str]
    #: of each row; messages that name none (tombstones) are of the one before them
    transaction: Indices
    #: of a change, below 0 where it names none; 0 for others
    place: Indices
    #: transaction -> `data_collections` of the marker of its end
    ends: Mapping[int, str]

    @classmethod
    def of(cls, rows: pa.Table) -> "_Seen":
        """Sort them."""
        topics = single(rows["topic"]).dictionary_encode()
        codes, offsets = topics.indices.to_numpy(zero_copy_only=False), rows["offset"].to_numpy()
        order = np.lexsort((offsets, codes))
        told = single(rows["transaction"]).take(pa.array(order))
        ids = compute.struct_field(told, "id").dictionary_encode()
        named = compute.fill_null(ids.indices, _NONE).to_numpy(zero_copy_only=False).astype(np.int64)
        place = compute.fill_null(compute.struct_field(told, "place"), 0).to_numpy(zero_copy_only=False)
        is_change = compute.is_valid(rows["is_read"]).to_numpy()[order]
        # a change with no place, or none that can be, counts by itself
        place = np.where(is_change & (place <= 0), -1 - offsets[order], place)
        parts = compute.struct_field(told, "parts")
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
        """Of a single topic: its last transaction, unless its end is there."""
        last = int(self.transaction[-1])
        return set() if last == _NONE or last in self.ends else {last}

    def incomplete(self, topics: Collection[str]) -> set[int]:
        """Of several topics: those without end, and those of which a topic has not all changes."""
        changes = np.flatnonzero(self.place)
        counted: dict[tuple[int, str], int] = {}
        columns = (self.transaction[changes], self.topic[changes], self.place[changes])
        for transaction, topic, _ in np.unique(np.stack(columns), axis=1).T.tolist():  # what is sent twice counts once
            counted[transaction, self.topics[topic]] = counted.get((transaction, self.topics[topic]), 0) + 1
        open_ = set(range(len(self.ids))) - self.ends.keys()
        for transaction, parts in self.ends.items():
            wanted = _wanted(parts, topics)
            if any(counted.get((transaction, topic), 0) < count for topic, count in wanted.items()):
                open_.add(transaction)
        return open_

    def behind(self, waiting: set[int]) -> dict[int, int]:
        """Topic -> index of its first row that waits: for its own transaction, or for one that stands before it."""
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
    """Every change has to name its transaction; rows of a snapshot are of none."""
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
    """How many changes each topic has, by the marker of a transaction's end; a topic is named after its table."""
    wanted: dict[str, int] = {}
    for name, count in _parts(parts):
        for topic in topics:
            if topic == name or topic.endswith(f".{name}"):
                wanted[topic] = wanted.get(topic, 0) + count
    return wanted


def _parts(parts: str) -> Iterator[tuple[str, int]]:
    """Name and count of each data collection; what is no such pair is left out, so that nothing is waited for."""
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
    """Rows of no transaction get that of the row before them in their topic."""
    at = np.where(transaction == _NONE, 0, np.arange(len(transaction)))
    np.maximum.accumulate(at, out=at)
    return np.where(topic[at] == topic, transaction[at], _NONE) if len(at) else transaction
