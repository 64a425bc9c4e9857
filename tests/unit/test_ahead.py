"""What is staged ahead: a limit for all lanes of a process together."""

from hypothesis import given
from hypothesis import strategies as st

from app.dispatch.ahead import Ahead

LIMIT = 100


def test_one_lane() -> None:
    ahead = Ahead(LIMIT)
    assert ahead.book("a", [40, 40, 40]) == 2
    assert ahead.book("a", [40, 40, 40]) == 2, "in place of what it had before"
    assert ahead.book("a", [101]) == 0
    assert Ahead(0).book("a", [1]) == 0


def test_another_lane_has_taken_its_part() -> None:
    ahead = Ahead(LIMIT)
    assert ahead.book("a", [70]) == 1
    assert ahead.book("b", [40, 20]) == 0, "in their order: the second one is of no use without the first"
    assert ahead.book("b", [20, 20]) == 1
    assert ahead.book("a", []) == 0
    assert ahead.book("b", [40, 40]) == 2


@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(1, 60), max_size=5)), max_size=20))
def test_never_more_than_the_limit(asked: list[tuple[str, list[int]]]) -> None:
    ahead, booked = Ahead(LIMIT), dict[str, int]()
    for lane, sizes in asked:
        booked[lane] = sum(sizes[: ahead.book(lane, sizes)])
        assert sum(booked.values()) <= LIMIT
