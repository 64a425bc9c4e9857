"""Cutting along suspects loses no message, gives none twice, keeps the order, and comes down to one."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.poison.narrowing import FAN_OUT, contains, cut, depth, is_before, only_position, single, split
from app.poison.row_parts import cut_rows, keep_together, span_of, split_rows

A, B = TopicPartition("a", 0), TopicPartition("b", 1)

bounds = st.tuples(st.integers(0, 400), st.integers(0, 400)).map(sorted)


def span(**ranges: tuple[int, int]) -> Span:
    """`span(a=(0, 5))`."""
    places = {"a": A, "b": B}
    start = {places[name]: first for name, (first, _) in ranges.items()}
    return Span(start=Offsets.of(start), end=Offsets.of({places[name]: end for name, (_, end) in ranges.items()}))


spans = st.builds(lambda a, b: span(a=tuple(a), b=tuple(b)), bounds, bounds)
ranges = st.builds(lambda a, one: span(**{"a" if one else "b": tuple(a)}), bounds, st.booleans())


def messages(*parts: Span) -> list[tuple[TopicPartition, int]]:
    """Every offset of the parts, one after the other."""
    return [(tp, offset) for part in parts for tp, end in part.end.items() for offset in range(part.start[tp], end)]


@given(spans, st.lists(ranges, max_size=5))
def test_the_parts_are_the_span(whole: Span, suspects: list[Span]) -> None:
    parts = cut(whole, suspects)
    assert messages(*parts) == messages(whole)


@given(ranges)
def test_a_split_has_few_parts_of_about_one_size(whole: Span) -> None:
    parts = split(whole)
    assert messages(*parts) == messages(whole)
    assert len(parts) <= FAN_OUT
    assert max((part.size for part in parts), default=0) <= -(-whole.size // FAN_OUT)  # none when it is empty


@given(st.integers(1, 10**6))
def test_the_depth_is_the_number_of_splits(whole: int) -> None:
    part, cuts = span(a=(0, whole)), 0
    assert depth(whole, whole) == 0
    while only_position(part) is None:
        part, cuts = split(part)[0], cuts + 1
        assert depth(whole, part.size) == cuts


@given(st.integers(0, 10**6))
def test_a_hundred_thousand_messages_come_down_to_one_in_four_steps(bad: int) -> None:
    bad %= 100_000
    suspect = span(a=(0, 100_000))
    steps = 0
    while only_position(suspect) is None:
        suspect = next(part for part in split(suspect) if contains(part, single(Position("a", 0, bad))))
        steps += 1
    assert only_position(suspect) == Position("a", 0, bad)
    assert steps <= 4


@given(st.lists(st.booleans(), max_size=60), st.lists(ranges, max_size=4))
def test_rows_are_cut_where_suspects_begin_and_end(order: list[bool], suspects: list[Span]) -> None:
    rows = pa.table(
        {
            "topic": pa.array(["a" if one else "b" for one in order], pa.string()),
            "partition": pa.array([0 if one else 1 for one in order], pa.int32()),
            "offset": pa.array([order[: at + 1].count(one) for at, one in enumerate(order)], pa.int64()),
        }
    )
    parts = cut_rows(rows, suspects)
    assert [row for first, end in parts for row in range(first, end)] == list(range(len(order)))
    for first, end in parts:
        part = span_of(rows.slice(first, end - first))
        for suspect in suspects:
            inside = [contains(suspect, single(Position(*place))) for place in _places(rows, first, end)]
            assert all(inside) or not any(inside) or any(s is not suspect for s in suspects), (part, suspect)


@given(st.integers(1, 300), st.lists(st.tuples(st.integers(0, 20), st.integers(1, 3)), max_size=40))
def test_a_pair_is_cut_only_where_it_is_all_there_is(count: int, gaps: list[tuple[int, int]]) -> None:
    pairs: dict[int, int] = {}
    at = 0
    for gap, length in gaps:
        pairs[at + gap] = at + gap + length
        at += gap + length + 1
    parts = keep_together(split_rows((0, count)), pairs)
    assert [row for begin, end in parts for row in range(begin, end)] == list(range(count))
    assert len(parts) > 1 or count == 1
    ends = {end for _, end in parts[:-1]}
    if any(first < end <= last for end in ends for first, last in pairs.items()):
        assert all(any(first < row <= last for first, last in pairs.items()) for row in range(1, count))


def test_one_suspect_is_cut_exactly() -> None:
    rows = pa.table({"topic": ["a"] * 100, "partition": pa.array([0] * 100, pa.int32()), "offset": list(range(100))})
    assert cut_rows(rows, []) == [(0, 100)]
    assert cut_rows(rows, [span(a=(40, 41))]) == [(0, 40), (40, 41), (41, 100)]
    parts = cut_rows(rows, [span(a=(10, 42))])
    assert parts == [(0, 10), *((first, first + 2) for first in range(10, 42, 2)), (42, 100)]
    assert split_rows((0, 1)) == [(0, 1)]


def test_a_span_is_passed_when_every_partition_is() -> None:
    one = span(a=(3, 5), b=(0, 0))
    assert is_before(one, Offsets.of({A: 5}))
    assert not is_before(one, Offsets.of({A: 4, B: 9}))
    assert not is_before(span(a=(3, 5), b=(0, 1)), Offsets.of({A: 5}))


def _places(rows: pa.Table, first: int, end: int) -> list[tuple[str, int, int]]:
    part = rows.slice(first, end - first)
    return list(zip(*(part[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True))
