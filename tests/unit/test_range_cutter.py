"""Where an epoch that no query plans ends."""

import pytest

from app.model.offsets import Offsets, Span, TopicPartition
from app.source.range_cutter import first_of


def span(*ranges: tuple[int, int]) -> Span:
    """Of one topic, by partition."""
    starts, ends = ({TopicPartition("t", number): one[at] for number, one in enumerate(ranges)} for at in (0, 1))
    return Span(start=Offsets.of(starts), end=Offsets.of(ends))


@pytest.mark.parametrize(
    ("whole", "messages", "part"),
    [
        ([(5, 1_000_005)], 99_999, [(5, 100_004)]),
        ([(0, 131_577)], 100_000, [(0, 100_000)]),  # with floating point a message more
        ([(0, 10)], 20, [(0, 10)]),
        ([(3, 3)], 20, [(3, 3)]),
        ([(4, 2)], 20, [(4, 4)]),  # Kafka ends before it: that is for who reads
        ([(0, 60), (100, 120)], 20, [(0, 15), (100, 105)]),
        ([(0, 2), (0, 2), (0, 2)], 1, [(0, 0), (0, 0), (0, 1)]),
        ([(0, 5), (0, 5), (7, 7), (0, 5)], 10, [(0, 3), (0, 3), (7, 7), (0, 4)]),
    ],
)
def test_the_first_messages(whole: list[tuple[int, int]], messages: int, part: list[tuple[int, int]]) -> None:
    assert first_of(span(*whole), messages) == span(*part)
