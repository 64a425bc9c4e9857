"""Cuts an epoch's rows as `app.poison.narrowing` cuts its span. Pure functions."""

import bisect
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from app.model.offsets import Offsets, Span, TopicPartition
from app.model.rows import is_of
from app.poison.narrowing import FAN_OUT

#: ordinals of an epoch's rows: from (inclusive), to (exclusive)
Rows = tuple[int, int]


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


def _membership(rows: pa.Table, span: Span) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """A mask of the rows that are in the span."""
    found = np.zeros(rows.num_rows, bool)
    offsets = rows["offset"].to_numpy()
    for tp, end in span.end.items():
        found |= is_of(rows, tp).to_numpy() & (offsets >= span.start[tp]) & (offsets < end)
    return found
