"""Cuts an epoch along its suspects, so that the next failure makes fewer messages suspect. Pure functions.

A suspect of several messages is split into FAN_OUT parts; the stretches before, between and after suspects stay whole.
"""

from collections.abc import Iterable, Iterator, Sequence

from app.model.offsets import Offsets, Position, Span, TopicPartition

#: parts that a suspect is split into: 100,000 messages are narrowed to one in four steps
FAN_OUT = 18


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
