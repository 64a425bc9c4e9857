"""The watchdog: what is in progress for too long, by a clock that the test turns."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from app.supervisor.watchdog import MOST_SECONDS_A_LOOK, SECONDS_A_MESSAGE, Watchdog

#: at which a supervisor looks
LOOK = 0.1


def first_complaint(watchdog: Watchdog, begin: float, until: float) -> float | None:
    """Seconds after `begin` at which it complains; None when it does not until then."""
    times = itertools.takewhile(lambda at: at < until, (begin + LOOK * n for n in itertools.count(1)))
    return next((at - begin for at in times if watchdog.look(at)), None)


@given(timeout=st.integers(1, 60), messages=st.integers(0, 5000), idle=st.integers(0, 100))
def test_a_span_may_take_its_time_and_no_longer(timeout: int, messages: int, idle: int) -> None:
    watchdog = Watchdog(timeout, 0.0)
    assert first_complaint(watchdog, 0.0, idle) is None
    watchdog.look(idle)
    watchdog.begin("a", messages)
    allowed = timeout + messages * SECONDS_A_MESSAGE
    complaint = first_complaint(watchdog, idle, idle + allowed + 1)
    assert complaint is not None
    assert allowed - LOOK <= complaint <= allowed + 2 * LOOK


def test_a_span_that_ended_or_was_replaced_is_forgotten() -> None:
    watchdog = Watchdog(5.0, 0.0)
    assert not watchdog.begun
    watchdog.begin("a", 0)
    assert watchdog.begun
    assert first_complaint(watchdog, 0.0, 4.0) is None
    watchdog.begin("a", 0)
    assert first_complaint(watchdog, 4.0, 8.0) is None
    watchdog.end("a")
    watchdog.end("a")
    assert first_complaint(watchdog, 8.0, 100.0) is None


def test_spans_side_by_side_have_each_its_own_time() -> None:
    watchdog = Watchdog(5.0, 0.0)
    watchdog.begin("a", 0)
    assert first_complaint(watchdog, 0.0, 3.0) is None
    watchdog.begin("b", 0)
    watchdog.end("a")
    assert first_complaint(watchdog, 3.0, 7.5) is None
    assert first_complaint(watchdog, 7.5, 9.0) is not None


def test_time_in_which_the_supervisor_itself_was_frozen_does_not_count() -> None:
    watchdog = Watchdog(MOST_SECONDS_A_LOOK * 2.5, 0.0)
    watchdog.begin("a", 0)
    assert watchdog.look(3600.0) is None
    assert watchdog.look(7200.0) is None
    assert watchdog.look(10800.0) is not None


def test_the_time_of_a_span_that_the_server_works_for_begins_anew() -> None:
    watchdog = Watchdog(5.0, 0.0)
    watchdog.begin("a", 0)
    for second in range(0, 60, 4):
        assert first_complaint(watchdog, second, second + 4) is None
        watchdog.busy("a")
        watchdog.busy("another")
    assert first_complaint(watchdog, 60.0, 70.0) is not None
