"""Restart strategies with Flink's names and semantics: when a worker that died is restarted.

Pure functions of the times of all deaths so far, in seconds, oldest first. Each returns the seconds to wait before the
next start, or None for no restart.
"""

import random
from collections.abc import Callable, Sequence

from app.config.settings import ExponentialDelay, FailureRate, FixedDelay, RestartSettings, Strategy


def pause(restart: RestartSettings, deaths: Sequence[float]) -> float | None:
    """Seconds before the next start by the configured strategy; None: no restart."""
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
    """At most `attempts` restarts in total, each after the same delay."""
    return settings.delay.total_seconds() if len(deaths) <= settings.attempts else None


def failure_rate(settings: FailureRate, deaths: Sequence[float]) -> float | None:
    """Restart while the last interval has no more than `max_failures_per_interval` deaths."""
    oldest = deaths[-1] - settings.failure_rate_interval.total_seconds()
    recent = sum(at > oldest for at in deaths)
    return settings.delay.total_seconds() if recent <= settings.max_failures_per_interval else None


def exponential_delay(
    settings: ExponentialDelay, deaths: Sequence[float], chance: Callable[[], float] = random.random
) -> float | None:
    """The delay grows with each death; a worker that lived long enough resets it. `chance` returns 0.0 to 1.0."""
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
