"""Algebra of offset ranges by topic-partition: union, missing ranges, gaps."""

import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.model.offsets import Offsets, Span, TopicPartition


class Stretch(NamedTuple):
    """Offsets from `start` (inclusive) to `end` (exclusive); not each of them needs to have a message."""

    tp: TopicPartition
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.tp} {self.start} to {self.end - 1}"


#: ranges by partition: ascending, disjoint, not adjacent
Kept = Mapping[TopicPartition, list[tuple[int, int]]]


def union(stretches: Iterable[Stretch]) -> dict[TopicPartition, list[tuple[int, int]]]:
    """The union by partition, adjacent ranges merged."""
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for tp, start, end in sorted(stretches):
        known = found.setdefault(tp, [])
        if known and start <= known[-1][1]:
            known[-1] = (known[-1][0], max(end, known[-1][1]))
        elif start < end:
            known.append((start, end))
    return {tp: known for tp, known in found.items() if known}


def missing(kept: Kept, span: Span) -> list[Stretch]:
    """The ranges of `span` that are not in `kept`."""
    found: list[Stretch] = []
    for tp, end in span.end.items():
        at = span.start[tp]
        for start, until in kept.get(tp, []):
            if until <= at or start >= end:
                continue
            if start > at:
                found.append(Stretch(tp, at, start))
            at = until
        if at < end:
            found.append(Stretch(tp, at, end))
    return found


def gaps(kept: Kept) -> list[Stretch]:
    """The ranges between kept ranges."""
    return [
        Stretch(tp, end, start)
        for tp, known in sorted(kept.items())
        for (_, end), (start, _) in itertools.pairwise(known)
    ]


def reach(kept: Kept, position: Offsets) -> Offsets:
    """The ends (exclusive) up to which all offsets from `position` on are kept; `position` itself where none is."""
    return Offsets.of({tp: _end(kept.get(tp, []), offset) for tp, offset in position.items()})


def _end(known: list[tuple[int, int]], at: int) -> int:
    return next((end for start, end in known if start <= at < end), at)
