"""Cuts an epoch along its suspects, so that the next failure makes fewer messages suspect. Pure functions.

A suspect of several messages is split into FAN_OUT parts; the stretches before, between and after suspects stay whole.
"""

import bisect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.model.rows import is_of

#: parts that a suspect is split into: 100,000 messages are narrowed to one in four steps
FAN_OUT = 18
#: ordinals of an epoch's rows: from (inclusive), to (exclusive)
Rows = tuple[int, int]


def single(position: Position) -> Span:
    return Span.of(TopicPartition(position.topic, position.partition), position.offset, position.offset + 1)


def only_position(span: Span) -> Position | None:
    """The position of the span's only message; None for a span of several."""
    if span.size != 1:
        return None
    tp = next(tp for tp, end in span.end.items() if end > span.start[tp])
    return Position(tp.topic, tp.partition, span.start[tp])


def contains(outer: Span, inner: Span) -> bool:
    """Whether every message of `inner` is in `outer`."""
    return all(
        inner.start[tp] >= end or (tp in outer.end and outer.start[tp] <= inner.start[tp] and end <= outer.end[tp])
        for tp, end in inner.end.items()
    )


def is_before(span: Span, position: Offsets) -> bool:
    """Whether the whole span lies before `position`."""
    return all(end <= position.get(tp, 0) for tp, end in span.end.items())


def depth(whole: int, part: int) -> int:
    """How often to split `whole` messages until no part has more than `part`."""
    cuts = 0
    while whole > max(part, 1):
        whole, cuts = -(-whole // FAN_OUT), cuts + 1
    return cuts


def cut(span: Span, suspects: Sequence[Span]) -> list[Span]:
    """The parts of the span: suspects of several messages split, single ones alone; the span itself without any."""
    if not any(_overlap(span, suspect) for suspect in suspects):
        return [span]
    return [part for tp in span.end for part in _cut_partition(tp, span, suspects)]


def split(span: Span) -> list[Span]:
    """At most FAN_OUT parts of about the same size (a few more if the span has several partitions)."""
    step = max(1, -(-span.size // FAN_OUT))
    return [
        Span.of(tp, first, min(first + step, end))
        for tp, end in span.end.items()
        for first in range(span.start[tp], end, step)
    ]


def cut_rows(rows: pa.Table, suspects: Sequence[Span]) -> list[Rows]:
    """Like `cut`, for rows in the lane's order (columns topic, partition, offset)."""
    count = rows.num_rows
    label = np.full(count, -1, np.int64)
    for index in sorted(range(len(suspects)), key=lambda index: -suspects[index].size):
        label[_membership(rows, suspects[index])] = index
    bounds = [0, *(np.flatnonzero(np.diff(label)) + 1).tolist(), count] if count else [0]
    parts: list[Rows] = []
    for first, last in itertools.pairwise(bounds):
        parts += split_rows((first, last)) if label[first] >= 0 else [(first, last)]
    return parts


def split_rows(rows: Rows) -> list[Rows]:
    """At most FAN_OUT parts of about the same size."""
    first, last = rows
    step = max(1, -(-(last - first) // FAN_OUT))
    return [(start, min(start + step, last)) for start in range(first, last, step)]


def keep_together(parts: Sequence[Rows], pairs: Mapping[int, int]) -> list[Rows]:
    """Move part borders so that both rows of a pair (first -> last) stay together, unless that leaves one part."""
    firsts = sorted(pairs)
    ends: list[int] = []
    for _, end in parts:
        at = bisect.bisect_left(firsts, end)
        ends.append(max(end, pairs[firsts[at - 1]] + 1) if at else end)
    begin, last = parts[0][0], parts[-1][1]
    bounds = [begin, *sorted({end for end in ends if begin < end < last}), last]
    return list(itertools.pairwise(bounds)) if len(bounds) > 2 else list(parts)


def span_of(rows: pa.Table) -> Span:
    """The smallest span that contains these rows."""
    bounds = rows.group_by(["topic", "partition"]).aggregate([("offset", "min"), ("offset", "max")]).to_pylist()
    start = {TopicPartition(row["topic"], row["partition"]): row["offset_min"] for row in bounds}
    end = {TopicPartition(row["topic"], row["partition"]): row["offset_max"] + 1 for row in bounds}
    return Span(start=Offsets.of(start), end=Offsets.of(end))


def _cut_partition(tp: TopicPartition, span: Span, suspects: Iterable[Span]) -> Iterator[Span]:
    """The parts of the span in one partition."""
    at, end = span.start[tp], span.end[tp]
    ranges = sorted(
        (max(at, suspect.start[tp]), min(end, suspect.end[tp])) for suspect in suspects if tp in suspect.end
    )
    for first, last in ranges:
        begin = max(at, first)
        if begin >= last:
            continue
        if begin > at:
            yield Span.of(tp, at, begin)
        yield from split(Span.of(tp, begin, last))
        at = last
    if at < end:
        yield Span.of(tp, at, end)


def _overlap(one: Span, other: Span) -> bool:
    return any(
        tp in other.end and max(one.start[tp], other.start[tp]) < min(end, other.end[tp]) for tp, end in one.end.items()
    )


def _membership(rows: pa.Table, span: Span) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """A mask of the rows that are in the span."""
    found = np.zeros(rows.num_rows, bool)
    offsets = rows["offset"].to_numpy()
    for tp, end in span.end.items():
        found |= is_of(rows, tp).to_numpy() & (offsets >= span.start[tp]) & (offsets < end)
    return found
