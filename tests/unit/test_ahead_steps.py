"""The thread that goes ahead of the checkpoint: when it takes steps, and what becomes of a step that fails."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from app.model.offsets import Offsets, Span, TopicPartition
from app.worker import going_ahead
from app.worker.going_ahead import AheadStep, GoingAhead
from app.worker.unplanned import rest
from tests.waiting import eventually

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
LONG = 60.0

Make = Callable[[Callable[[], AheadStep]], GoingAhead]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[GoingAhead] = []

    def going(step: Callable[[], AheadStep]) -> GoingAhead:
        made.append(GoingAhead(step, lambda: False))
        return made[-1]

    yield going
    for one in made:
        one.stop()


def test_it_goes_on_until_a_step_is_left(make: Make) -> None:
    steps = iter([AheadStep.APPLIED, AheadStep.NOTHING, AheadStep.APPLIED, AheadStep.LEFT, AheadStep.LEFT])
    ahead = make(lambda: next(steps))
    ahead.follow(LONG)
    assert list(steps) == [AheadStep.LEFT], "it rests until it is called again"


def test_it_rests_where_nothing_comes(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(going_ahead, "QUIET_SECONDS", 0.05)
    begin = time.monotonic()
    make(lambda: AheadStep.NOTHING).follow(LONG)
    assert 0.05 <= time.monotonic() - begin < LONG


def test_spark_goes_on_after_a_while(make: Make) -> None:
    steps: list[float] = []
    ahead = make(lambda: steps.append(time.monotonic()) or AheadStep.APPLIED)
    ahead.follow(0.05)
    seen = len(steps)
    eventually(lambda: len(steps) > seen, why="it goes on meanwhile")


def test_a_failure_is_raised_where_spark_calls(make: Make) -> None:
    steps = iter([AheadStep.APPLIED])
    ahead = make(lambda: next(steps))
    with pytest.raises(StopIteration):
        ahead.follow(LONG)
    with pytest.raises(StopIteration):
        ahead.check()
    with pytest.raises(StopIteration):
        ahead.follow(LONG)


def test_a_failure_ends_the_wait(make: Make) -> None:
    """Also where Spark calls again while steps are taken."""
    may_fail, calls = threading.Event(), 0

    def step() -> AheadStep:
        nonlocal calls
        calls += 1
        assert not may_fail.is_set()
        return AheadStep.APPLIED

    ahead = make(step)
    ahead.follow(0.05)
    threading.Timer(0.2, may_fail.set).start()
    begin = time.monotonic()
    with pytest.raises(AssertionError):
        ahead.follow(LONG)
    assert time.monotonic() - begin < LONG / 2
    assert calls > 1


def test_spark_is_let_go(make: Make) -> None:
    steps: list[float] = []
    holder: list[GoingAhead] = []

    def step() -> AheadStep:
        steps.append(time.monotonic())
        if holder:
            holder[0].let_go()
        return AheadStep.APPLIED

    holder.append(make(step))
    begin = time.monotonic()
    holder[0].follow(LONG)
    assert time.monotonic() - begin < LONG / 2
    seen = len(steps)
    eventually(lambda: len(steps) > seen, why="it goes on meanwhile")


def test_its_end_waits_for_the_step_in_progress() -> None:
    begun, may_end, done = threading.Event(), threading.Event(), threading.Event()

    def step() -> AheadStep:
        begun.set()
        may_end.wait(LONG)
        done.set()
        return AheadStep.APPLIED

    ahead = GoingAhead(step, lambda: False)
    threading.Thread(target=ahead.follow, args=(LONG,), daemon=True).start()
    assert begun.wait(LONG)
    threading.Timer(0.2, may_end.set).start()
    ahead.stop()
    assert done.is_set()


def test_its_end_does_not_wait_for_spark_that_is_gone() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def step() -> AheadStep:
        begun.set()
        may_end.wait(LONG)
        return AheadStep.LEFT

    ahead = GoingAhead(step, lambda: True)
    threading.Thread(target=ahead.follow, args=(LONG,), daemon=True).start()
    assert begun.wait(LONG)
    ahead.stop()
    may_end.set()


def span(start: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> Span:
    return Span(start=Offsets.of(start), end=Offsets.of(end))


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ({ONE: 10, OTHER: 5}, ({ONE: 10, OTHER: 5}, {ONE: 20, OTHER: 5})),
        ({ONE: 15, OTHER: 5}, ({ONE: 15, OTHER: 5}, {ONE: 20, OTHER: 5})),
        ({ONE: 20, OTHER: 5}, ({ONE: 20, OTHER: 5}, {ONE: 20, OTHER: 5})),
        # Spark limits an epoch's messages: of a partition it may have planned less than is applied
        ({ONE: 15, OTHER: 9}, ({ONE: 15, OTHER: 9}, {ONE: 20, OTHER: 9})),
        # a partition that is new
        ({ONE: 15}, ({ONE: 15, OTHER: 5}, {ONE: 20, OTHER: 5})),
    ],
)
def test_what_is_left_of_a_plan(
    read: dict[TopicPartition, int], expected: tuple[dict[TopicPartition, int], dict[TopicPartition, int]]
) -> None:
    planned = span({ONE: 10, OTHER: 5}, {ONE: 20, OTHER: 5})
    assert rest(planned, Offsets.of(read)) == span(*expected)
