"""One epoch's decoded rows in order, with their layouts and the last change of each key.

All of it is numpy and Arrow over whole columns; nothing here runs once a message.
"""

import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from app.epoch.key_order import key_numbers, key_order
from app.epoch.toast_placeholders import completed, patched
from app.model.arrow import Indices, compute, single
from app.model.offsets import Position
from app.model.row_layout import Layout, RowKind
from app.model.rows import SEQUENCE

#: numbers up to which numpy sorts without comparing
_MOST_INT16 = np.iinfo(np.int16).max
CHANGES = (RowKind.UPSERT, RowKind.PATCH, RowKind.DELETE, RowKind.TRUNCATE)


@dataclass(frozen=True)
class EpochBatch:
    """Decoded messages of one epoch in the order in which they take effect; a row's index is its ordinal."""

    #: columns as in `app.model.rows`
    rows: pa.Table
    layouts: tuple[Layout, ...]
    #: index into `layouts` for each row
    codes: Indices

    @classmethod
    def arrange(cls, rows: pa.Table) -> "EpochBatch":
        """Sort decoded rows, which Spark's tasks deliver in any order, into the lane's order."""
        ordered = patched(_in_order(rows.combine_chunks()))
        encoded = single(ordered["layout"]).dictionary_encode()
        layouts = tuple(Layout.parse(text) for text in encoded.dictionary.to_pylist())
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return cls(ordered, layouts, codes)

    def __len__(self) -> int:
        return self.rows.num_rows

    def rehearse(self) -> None:
        """Compute all that is computed of an epoch until it is written: a message that fails there fails here."""
        _ = self.last_lines, self.identities, self.key_changes, self.completed(), self.source_times()
        for ordinal in self.firsts.values():
            self.key_columns(ordinal)

    def part(self, first: int, end: int) -> "EpochBatch":
        """The rows from ordinal `first` up to `end`, exclusive, as an epoch."""
        if (first, end) == (0, len(self)):
            return self
        return EpochBatch(self.rows.slice(first, end - first), self.layouts, self.codes[first:end])

    def without(self, ordinals: Indices) -> "EpochBatch":
        """The epoch without these rows."""
        keep = np.ones(len(self), bool)
        keep[ordinals] = False
        return EpochBatch(self.rows.filter(pa.array(keep)), self.layouts, self.codes[keep])

    def of_kind(self, *kinds: RowKind) -> Indices:
        """Ordinals of all rows of these kinds, ascending."""
        wanted = np.array([layout.kind in kinds for layout in self.layouts], dtype=bool)
        return np.flatnonzero(wanted[self.codes]) if len(self) else np.empty(0, np.int64)

    @cached_property
    def firsts(self) -> dict[int, int]:
        """Ordinal of the first row of each layout, by the layout's index; layouts without rows are left out."""
        first = np.full(len(self.layouts), -1, np.int64)
        first[self.codes[::-1]] = np.arange(len(self))[::-1]  # for a repeated index numpy keeps the last assignment
        return {index: ordinal for index, ordinal in enumerate(first.tolist()) if ordinal >= 0}

    def by_layout(self, among: Indices) -> list[Indices]:
        """For each layout those of `among` that have it, in their order; one pass, however many layouts there are."""
        codes = self.codes[among]
        order = np.argsort(codes.astype(np.int16) if len(self.layouts) <= _MOST_INT16 else codes, kind="stable")
        return np.split(among[order], np.cumsum(np.bincount(codes, minlength=len(self.layouts)))[:-1])

    @cached_property
    def identities(self) -> Indices:
        """One number for each row, equal for changes of the same key of the same table, -1 for rows without a key."""
        if self._numbers is not None:
            codes = _ranks(self._numbers)
        else:
            keys = single(self.rows["key"]).dictionary_encode().indices
            codes = compute.fill_null(keys, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return np.where(codes < 0, -1, codes * len(self.layouts) + self._tables[self.codes])

    @cached_property
    def _numbers(self) -> Indices | None:
        """See `key_numbers`."""
        return key_numbers(single(self.rows["key"]))

    @cached_property
    def _tables(self) -> Indices:
        """A number for the source table of each layout."""
        tables: dict[tuple[str, str], int] = {}
        names = ((layout.schema, layout.table) for layout in self.layouts)
        return np.array([tables.setdefault(name, len(tables)) for name in names], np.int64)

    @cached_property
    def survivors(self) -> Indices:
        """Ordinals of the changes that are the last of their key; a change without key survives."""
        changes, last = self.changes, self._last
        identities = self.identities[changes]
        return changes[(identities < 0) | (last[identities] == changes)] if len(last) else changes

    @cached_property
    def changes(self) -> Indices:
        """Ordinals of the rows that change the target."""
        return self.of_kind(*CHANGES)

    @cached_property
    def _last(self) -> Indices:
        """By identity: ordinal of the last change that has it, -1 where none has."""
        identities = self.identities[self.changes]
        last, keyed = np.full(int(identities.max(initial=-1)) + 1, -1, np.int64), identities >= 0
        last[identities[keyed]] = self.changes[keyed]  # for a repeated index numpy keeps the last assignment
        return last

    @cached_property
    def written(self) -> list[Indices]:
        """The survivors of each layout, in the order in which they are written: see `key_order`."""
        if self._numbers is not None:  # every change has a key, and identities have their order
            return self.by_layout(self._last[self._last >= 0])
        keys = single(self.rows["key"])
        return [ordinals[key_order(keys.take(pa.array(ordinals)))] for ordinals in self.by_layout(self.survivors)]

    @cached_property
    def last_lines(self) -> list[pa.Array]:
        """COPY lines of the survivors of each layout, in the order of their keys."""
        return [self.all_lines.take(pa.array(ordinals)) for ordinals in self.written]

    @cached_property
    def key_changes(self) -> dict[int, int]:
        """Key changes: ordinal of the delete of the old key -> ordinal of the insert of the new one.

        Debezium makes both of one record of the source's log: they have its source position, and no change is between
        them.
        """
        changes = self.changes
        codes = self.codes[changes]
        is_delete, is_written = (
            np.array([layout.kind in kinds for layout in self.layouts], bool)[codes]
            for kinds in ((RowKind.DELETE,), (RowKind.UPSERT, RowKind.PATCH))
        )
        tables = self._tables[codes]
        pairs = np.flatnonzero(is_delete[:-1] & is_written[1:] & (tables[:-1] == tables[1:]))
        olds, news = pa.array(changes[pairs]), pa.array(changes[pairs + 1])
        for name in ("topic", "partition", "sequence"):
            column = self.rows[name]
            same = compute.fill_null(compute.equal(column.take(olds), column.take(news)), False)
            olds, news = olds.filter(same), news.filter(same)
        return dict(zip(olds.to_pylist(), news.to_pylist(), strict=True))

    def key_columns(self, ordinal: int) -> frozenset[str]:
        """Names of the columns in this message's key; empty for one without key, or whose key is no object."""
        try:
            key = json.loads(self.rows["key"][ordinal].as_py() or "null")
        except (ValueError, RecursionError):
            return frozenset()
        if isinstance(key, dict) and self.layout(ordinal).schema_hash:
            key = key.get("payload")
        return frozenset(key) if isinstance(key, dict) else frozenset()

    def completed(self) -> "EpochBatch | None":
        """The epoch with its patches completed from earlier changes of their rows; None where only the order of the
        changes is right (`app.epoch.toast_placeholders`)."""
        if not any(layout.kind is RowKind.PATCH for layout in self.layouts):
            return self
        found = completed(self.rows, self.layouts, self.codes, self.identities)
        return None if found is None else EpochBatch(found[0], self.layouts, found[1])

    @cached_property
    def last_stamps(self) -> list[pa.Array]:
        """Source times and positions of the survivors of each layout, in the order of `last_lines`."""
        return [self.stamps(ordinals) for ordinals in self.written]

    def stamps(self, ordinals: Indices) -> pa.Array:
        """Source time (milliseconds, `\\N` without one), topic, partition and offset of these rows, as the beginning of
        a COPY line."""
        at = pa.array(ordinals)
        times = compute.fill_null(compute.cast(single(self.rows["ts_ms"]).take(at), pa.string()), "\\N")
        topic = single(self.rows["topic"]).take(at)
        numbers = (compute.cast(single(self.rows[name]).take(at), pa.string()) for name in ("partition", "offset"))
        return compute.binary_join_element_wise(times, topic, *numbers, "\t")

    def lines(self, ordinals: Indices) -> pa.Array:
        """COPY lines of these rows; all rows are not copied."""
        return self.all_lines if len(ordinals) == len(self) else self.all_lines.take(pa.array(ordinals))

    @cached_property
    def all_lines(self) -> pa.Array:
        """COPY lines of all rows."""
        return single(self.rows["line"])

    def position(self, ordinal: int) -> Position:
        topic, partition, offset = (self.rows[name][ordinal].as_py() for name in ("topic", "partition", "offset"))
        return Position(topic, partition, offset)

    def layout(self, ordinal: int) -> Layout:
        return self.layouts[int(self.codes[ordinal])]

    def source_times(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Source commit time of each change, seconds since 1970; computed once."""
        return self._source_times

    @cached_property
    def _source_times(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        times = single(self.rows["ts_ms"]).take(pa.array(self.changes)).drop_null()
        return times.to_numpy(zero_copy_only=False).astype(np.float64) / 1000.0


def _in_order(rows: pa.Table) -> pa.Table:
    """Kafka's order within a topic; between topics the order of the source's commits, by their times where source
    positions do not decide."""
    offsets = rows["offset"].to_numpy()
    if rows.num_rows < 2:
        return rows
    topics = single(rows["topic"]).dictionary_encode()
    if len(topics.dictionary) == 1:
        return rows if bool(np.all(np.diff(offsets) > 0)) else rows.take(pa.array(np.argsort(offsets, kind="stable")))
    codes = topics.indices.to_numpy(zero_copy_only=False)
    by_topic = np.lexsort((offsets, codes))
    commit, lsn = source_places(single(rows["sequence"].take(pa.array(by_topic))), codes[by_topic])
    times = compute.fill_null(single(rows["ts_ms"]), 0).to_numpy(zero_copy_only=False)[by_topic]
    time = _never_falling(np.argsort(times, kind="stable"), times, codes[by_topic])
    order = by_topic[np.lexsort((offsets[by_topic], codes[by_topic], time, lsn, commit))]
    return rows.take(pa.array(order))


def source_places(sequences: pa.Array, topics: Indices) -> tuple[Indices, Indices]:
    """(commit before, lsn) of each message, never falling within a topic, so that each topic keeps its own order.

    `topics`: a number for each message's topic, ascending; each topic's messages are in the order of their offsets. A
    message without source position (tombstone, heartbeat) takes that of the message before it in its topic, the first
    one (0, 0).
    """
    commits, lsns = _parsed(sequences)
    by_place = np.lexsort((lsns, commits))
    return _never_falling(by_place, commits, topics), _never_falling(by_place, lsns, topics)


def _ranks(numbers: Indices) -> Indices:
    """For each number how many smaller ones there are, equal ones counted once."""
    order = np.argsort(numbers)
    ranks = np.empty(len(numbers), np.int64)
    ranks[order] = np.cumsum(np.diff(numbers[order], prepend=numbers[order[:1]]) != 0)
    return ranks


def _never_falling(order: Indices, values: Indices, topics: Indices) -> Indices:
    """For each message the value of the one that is last in `order` among those up to it in its topic."""
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    first = np.cumsum(np.diff(topics, prepend=topics[:1]) != 0) * len(order)
    return values[order[np.maximum.accumulate(ranks + first) - first]]


def _parsed(sequences: pa.Array) -> tuple[Indices, Indices]:
    """0 for a missing part; for both where the text is no pair of log positions."""
    found = compute.extract_regex(sequences, pattern=SEQUENCE)
    commits, lsns = (_number(compute.struct_field(found, name)) for name in ("commit", "lsn"))
    return commits, lsns


def _number(digits: pa.Array) -> Indices:
    known = compute.if_else(compute.equal(digits, ""), "0", digits)
    return compute.fill_null(compute.cast(known, pa.int64()), 0).to_numpy(zero_copy_only=False)
