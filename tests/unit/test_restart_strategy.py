"""Restart strategies: pure functions of the times of deaths, and the watchdog, with a given time."""

import datetime
import itertools
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.config.settings import ExponentialDelay, FailureRate, FixedDelay, RestartSettings, Strategy
from app.supervisor.restart_strategy import exponential_delay, failure_rate, fixed_delay, pause

#: seconds of pauses, rounding apart
EXACT = 1e-6


def seconds(number: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=number)


def in_the_middle() -> float:
    """No jitter."""
    return 0.5


SECONDS = st.integers(min_value=1, max_value=1000)
#: times of deaths, each some seconds after the one before
DEATHS = st.lists(st.integers(0, 5000), min_size=1, max_size=30).map(lambda gaps: list(itertools.accumulate(gaps)))


@st.composite
def growing(draw: Callable[..., float]) -> ExponentialDelay:
    first = draw(SECONDS)
    return ExponentialDelay(
        initial_backoff=seconds(first),
        max_backoff=seconds(first + draw(SECONDS)),
        backoff_multiplier=draw(st.floats(1, 4)),
        reset_backoff_threshold=seconds(draw(SECONDS)),
        jitter_factor=draw(st.floats(0, 1)),
    )


def test_fixed_delay_is_so_many_times_in_all() -> None:
    settings = FixedDelay(attempts=2, delay=seconds(3))
    assert [fixed_delay(settings, [0.0, 1e3, 1e6][:count]) for count in (1, 2, 3)] == [3, 3, None]


def test_failure_rate_counts_the_deaths_of_the_last_interval() -> None:
    settings = FailureRate(max_failures_per_interval=2, failure_rate_interval=seconds(10), delay=seconds(3))
    assert failure_rate(settings, [0, 1]) == 3
    assert failure_rate(settings, [0, 1, 2]) is None
    assert failure_rate(settings, [0, 1, 10]) == 3, "the first one is an interval ago"


@given(deaths=DEATHS, most=st.integers(0, 10), interval=SECONDS)
def test_failure_rate_allows_exactly_what_it_says(deaths: list[float], most: int, interval: int) -> None:
    settings = FailureRate(max_failures_per_interval=most, failure_rate_interval=seconds(interval))
    recent = [at for at in deaths if deaths[-1] - at < interval]
    assert (failure_rate(settings, deaths) is None) == (len(recent) > most)


def test_exponential_delay_grows_to_its_most_and_begins_anew_after_a_long_life() -> None:
    settings = ExponentialDelay(
        initial_backoff=seconds(1),
        max_backoff=seconds(5),
        backoff_multiplier=2,
        reset_backoff_threshold=seconds(100),
        attempts=4,
    )
    deaths = [0.0, 10, 20, 30, 130, 235, 245]
    pauses = [exponential_delay(settings, deaths[:count], in_the_middle) for count in range(1, len(deaths) + 1)]
    assert pauses == [1, 2, 4, 5, None, 1, 2], "100 s after 30 s it had lived for 95 s only, at 235 s for 100 s"


@given(settings=growing(), deaths=DEATHS, chance=st.floats(0, 1))
def test_exponential_delay_stays_within_its_bounds(
    settings: ExponentialDelay, deaths: list[float], chance: float
) -> None:
    plain = exponential_delay(settings, deaths, in_the_middle)
    varied = exponential_delay(settings, deaths, lambda: chance)
    assert plain is not None
    assert varied is not None
    first, most = settings.initial_backoff.total_seconds(), settings.max_backoff.total_seconds()
    assert first - EXACT <= plain <= most + EXACT
    assert 0 <= varied <= most + EXACT
    assert abs(varied - plain) <= settings.jitter_factor * plain + EXACT


@given(settings=growing(), deaths=DEATHS, life=st.integers(0, 5000))
def test_exponential_delay_never_shrinks_before_a_life_was_long(
    settings: ExponentialDelay, deaths: list[float], life: int
) -> None:
    before = exponential_delay(settings, deaths, in_the_middle)
    assert before is not None
    after = exponential_delay(settings, [*deaths, deaths[-1] + before + life], in_the_middle)
    assert after is not None
    reset = settings.reset_backoff_threshold.total_seconds()
    assume(abs(life - reset) > EXACT)
    if life > reset:
        assert after == settings.initial_backoff.total_seconds()
    else:
        assert after >= before - EXACT


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.EXPONENTIAL_DELAY, (0.9, 1.1)),
        (Strategy.FIXED_DELAY, (7, 7)),
        (Strategy.FAILURE_RATE, (8, 8)),
        (Strategy.NONE, None),
    ],
)
def test_the_configured_one_decides(strategy: Strategy, expected: tuple[float, float] | None) -> None:
    restart = RestartSettings(
        strategy=strategy, fixed_delay=FixedDelay(delay=seconds(7)), failure_rate=FailureRate(delay=seconds(8))
    )
    found = pause(restart, [100.0])
    assert found is None if expected is None else found is not None and expected[0] <= found <= expected[1]
