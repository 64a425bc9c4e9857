"""Freshness: time from the source's commit to the moment a reader of the target sees the change.

Each message counts, at up to a hundred thousand a second: an epoch is added as one numpy array. The client library's
Histogram, with a call for each observation, is too slow.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

#: upper bounds in seconds: fine up to the promised second, coarse for catching up after an outage
BOUNDS = (
    0.05,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    1.0,
    1.5,
    2.0,
    3.0,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    1800.0,
    7200.0,
    86400.0,
)
_LABELS = [*(f"{bound}" for bound in BOUNDS), "+Inf"]


@dataclass
class _Lane:
    """Counts of each bucket (not cumulative) and the sum of all values."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(_LABELS), np.int64))
    total_seconds: float = 0.0


class Freshness(Collector):
    """A histogram for each lane, filled with arrays."""

    text = "Source commit to visible in the target, every change"

    def __init__(self, name: str, registry: CollectorRegistry) -> None:
        self._name = name
        self._lanes: dict[str, _Lane] = {}
        self._lock = threading.Lock()
        registry.register(self)

    def add(self, lane: str, seconds: NDArray[np.float64]) -> None:
        """Count each value but NaN (a message without a source time); negative values (clock skew) count as 0."""
        known = np.maximum(seconds[~np.isnan(seconds)], 0.0)
        counts = np.bincount(np.searchsorted(BOUNDS, known, side="left"), minlength=len(_LABELS))
        with self._lock:
            mine = self._lanes.setdefault(lane, _Lane())
            mine.counts = mine.counts + counts
            mine.total_seconds += float(known.sum())

    def describe(self) -> list[HistogramMetricFamily]:
        """The name, so that the registry refuses a second collector."""
        return [self._family()]

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """One family with all lanes."""
        family = self._family()
        with self._lock:
            for lane, mine in self._lanes.items():
                cumulative = mine.counts.cumsum().tolist()
                family.add_metric([lane], list(zip(_LABELS, cumulative, strict=True)), mine.total_seconds)
        yield family

    def _family(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self._name, self.text, labels=["lane"])
