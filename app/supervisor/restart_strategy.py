"""Restart strategies, named and meant as Flink's: when a worker that died is started again.

Pure functions of the times of all deaths so far, in seconds, oldest first. Each gives the seconds to wait before the
next start, or None when there is to be none.
"""

import random
from collections.abc import Callable, Sequence

from app.config.settings import ExponentialDelay, FailureRate, FixedDelay, RestartSettings, Strategy


def pause(restart: RestartSettings, deaths: Sequence[float]) -> float | None:
    """What the configured strategy says."""
    match restart.strategy:
        case Strategy.EXPONENTIAL_DELAY:
            return exponential_delay(restart.exponential_delay, deaths)
        case Strategy.FIXED_DELAY:
            return fixed_delay(restart.fixed_delay, deaths)
        case Strategy.FAILURE_RATE:
            return failure_rate(restart.failure_rate, deaths)
        case Strategy.NONE:
            return None


def fixed_delay(settings: FixedDelay, deaths: Sequence[float]) -> float | None:
    """So many restarts in all, each after the same time."""
    return settings.delay.total_seconds() if len(deaths) <= settings.attempts else None


def failure_rate(settings: FailureRate, deaths: Sequence[float]) -> float | None:
    """As long as the last interval saw no more deaths than that."""
    oldest = deaths[-1] - settings.failure_rate_interval.total_seconds()
    recent = sum(at > oldest for at in deaths)
    return settings.delay.total_seconds() if recent <= settings.max_failures_per_interval else None


def exponential_delay(
    settings: ExponentialDelay, deaths: Sequence[float], chance: Callable[[], float] = random.random
) -> float | None:
    """Longer each time, from the start again after a worker that lived for long. `chance` gives 0.0 to 1.0."""
    first, most = settings.initial_backoff.total_seconds(), settings.max_backoff.total_seconds()
    reset = settings.reset_backoff_threshold.total_seconds()
    attempt, backoff = 0, first
    for index, at in enumerate(deaths):
        lived_long = index > 0 and at - deaths[index - 1] >= reset + backoff
        attempt, backoff = (1, first) if index == 0 or lived_long else (attempt + 1, _longer(backoff, settings, most))
    if settings.attempts is not None and attempt > settings.attempts:
        return None
    jitter = settings.jitter_factor * backoff * (2 * chance() - 1)
    return min(backoff + jitter, most)


def _longer(backoff: float, settings: ExponentialDelay, most: float) -> float:
    return min(backoff * settings.backoff_multiplier, most)
