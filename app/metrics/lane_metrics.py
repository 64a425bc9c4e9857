"""What a lane tells Prometheus, in the lane's own words."""

import datetime
import math
import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge

from app.metrics.families import families_of
from app.model.counts import Counts
from app.model.death import TASK_GONE, Cause
from app.model.epoch import EpochRecord
from app.model.for_driver import ForDriver
from app.model.in_flight import InFlightView, SpanState
from app.model.offsets import Offsets, TopicPartition

#: as in the ledger's lane_state
STATES = ("starting", "running", "stopped", "failed")
OUTCOMES = tuple(outcome for outcome in Counts().as_dict() if outcome != "consumed")


class LaneMetrics:
    """The metrics of one lane; safe to call from any thread."""

    def __init__(
        self, lane: str, registry: CollectorRegistry | None = None, *, restarts: Mapping[str, int] | None = None
    ) -> None:
        """`restarts`: those before this process, by cause."""
        self._lane = lane
        self._families = families_of(registry or REGISTRY)
        #: begin of the attempt in progress, monotonic
        self._begun_at: float | None = None
        for counter in (self._families.epochs, self._families.consumed, self._families.lost):
            counter.labels(lane)  # a counter is there before it counts: else its first increase is none
        for outcome in OUTCOMES:
            self._outcome(outcome)
        for reason in ForDriver:
            self._families.for_driver.labels(lane, reason.value)
        for cause in (*(one.value for one in Cause), TASK_GONE):
            self._families.stage_deaths.labels(lane, cause)
        #: of stage processes
        self._hosts: set[str] = set()
        self._families.attempt_seconds.labels(lane).set_function(self._attempt_seconds)
        self.set_state("starting")
        for cause, count in (restarts or {}).items():
            self._families.restarts.labels(lane, cause).inc(count)

    def epoch_done(
        self, record: EpochRecord, steps: Mapping[str, float], freshness_seconds: NDArray[np.float64]
    ) -> None:
        """An epoch became visible: its ledger row, seconds by step, and the freshness of each change."""
        families = self._families
        families.epochs.labels(self._lane).inc()
        for outcome, count in record.counts.as_dict().items():
            counter = self._outcome(outcome) if outcome in OUTCOMES else families.consumed.labels(self._lane)
            counter.inc(count)
        for step, seconds in steps.items():
            families.step.labels(self._lane, step).observe(seconds)
        families.freshness.add(self._lane, freshness_seconds)
        families.generation.labels(self._lane).set(record.generation)
        families.epoch.labels(self._lane).set(record.epoch)
        self.set_position(record.span.end)

    def set_position(self, position: Offsets) -> None:
        """Where the lane goes on."""
        for tp, offset in position.items():
            self._at(self._families.position, tp).set(offset)

    def set_held(self, messages: int) -> None:
        """Messages that are read and not applied yet; see `app.lane.alignment`."""
        self._families.held.labels(self._lane).set(messages)

    def set_stage(self, seen: InFlightView, *, processes: Mapping[str, int], tasks: int, limit: int) -> None:
        """What is in flight of this lane; connected processes by host, and how many there are to be; bytes that may be
        staged ahead."""
        families, spans = self._families, seen.by_state
        families.stage_tasks.labels(self._lane).set(tasks)
        families.stage_ahead.labels(self._lane).set(seen.ahead_bytes)
        families.stage_ahead_limit.labels(self._lane).set(limit)
        hosts = {*processes, *(host for host, _ in spans)}
        for gone in self._hosts - hosts:
            families.stage_processes.remove(self._lane, gone)
            for state in SpanState:
                families.stage_spans.remove(self._lane, gone, state.value)
        for host in hosts:
            families.stage_processes.labels(self._lane, host).set(processes.get(host, 0))
            for state in SpanState:
                families.stage_spans.labels(self._lane, host, state.value).set(spans[host, state])
        self._hosts = hosts

    def stage_died(self, cause: str) -> None:
        """A stage process is gone; `cause` is a short word, not a message."""
        self._families.stage_deaths.labels(self._lane, cause).inc()

    def for_driver(self, reason: ForDriver) -> None:
        """The driver processes a span that tasks could have staged."""
        self._families.for_driver.labels(self._lane, reason.value).inc()

    def set_lag(self, messages: Mapping[TopicPartition, int], seconds: float | None) -> None:
        """Offsets still to apply, and the age of the oldest of them; None when that is not known."""
        for tp, count in messages.items():
            self._at(self._families.lag_messages, tp).set(count)
        self._families.lag_seconds.labels(self._lane).set(math.nan if seconds is None else seconds)

    def monitored(self, at: float) -> None:
        """Everything was looked at, at that Unix time."""
        self._families.monitored_at.labels(self._lane).set(at)

    def set_in_doubt(self, count: int, age_seconds: float) -> None:
        """Prepared transactions of this lane, and the age of the oldest."""
        self._families.in_doubt.labels(self._lane).set(count)
        self._families.in_doubt_age.labels(self._lane).set(age_seconds)

    def set_prepared_slots(self, used: int, limit: int) -> None:
        """Prepared transactions on the server, and how many it takes."""
        self._families.slots_used.labels(self._lane).set(used)
        self._families.slots_limit.labels(self._lane).set(limit)

    def set_guard(self, *, suspects: int, narrowing: int, depth: int, begun_at: float | None) -> None:
        """Spans that are suspected; offsets of the part in progress and how often the epoch was cut to come to it, 0
        while it goes as a whole; when the attempt in progress was begun (monotonic), None when there is none."""
        self._begun_at = begun_at
        self._families.suspects.labels(self._lane).set(suspects)
        self._families.narrowing.labels(self._lane).set(narrowing)
        self._families.depth.labels(self._lane).set(depth)
        self._families.attempts.labels(self._lane).set(begun_at is not None)

    def lost(self, seconds: float) -> None:
        """So much time went to what was suspected."""
        self._families.lost.labels(self._lane).inc(seconds)

    def set_quarantine(self, open_entries: Mapping[str, int], parked_keys: int) -> None:
        """Entries by state that wait for somebody, and keys that are held."""
        for state, count in open_entries.items():
            self._families.open.labels(self._lane, state).set(count)
        self._families.parked_keys.labels(self._lane).set(parked_keys)

    def set_breaker(self, messages: int, limit: int) -> None:
        """Messages that count for the breaker now, and how many it allows."""
        self._families.breaker_messages.labels(self._lane).set(messages)
        self._families.breaker_limit.labels(self._lane).set(limit)

    def quarantined(self, reason: str) -> None:
        """A message was skipped; `reason` is a class of failures, not a message."""
        self._families.quarantined.labels(self._lane, reason).inc()

    def dead_letter_sent(self) -> None:
        """A copy of a skipped message is in its topic."""
        self._families.letters.labels(self._lane).inc()

    def dead_letter_failed(self) -> None:
        """None is sent for a while."""
        self._families.letter_failures.labels(self._lane).inc()

    def set_dead_letters_waiting(self, count: int) -> None:
        """Skipped messages that were not sent."""
        self._families.letters_waiting.labels(self._lane).set(count)

    def set_verified(self, at: datetime.datetime, differing: int) -> None:
        """When the target was last compared with another database, and how many keys differed."""
        self._families.verified_at.labels(self._lane).set(at.timestamp())
        self._families.verify_differences.labels(self._lane).set(differing)

    def set_snapshot(self, at: datetime.datetime, position: Offsets) -> None:
        """When the newest snapshot of the target was begun, and up to where it reaches at least."""
        self._families.snapshot_at.labels(self._lane).set(at.timestamp())
        for tp, offset in position.items():
            self._at(self._families.snapshot_position, tp).set(offset)

    def set_replayable(self, ok: bool, headroom_seconds: float) -> None:
        """Whether Kafka still has what comes after it, and for how long."""
        self._families.snapshot_replayable.labels(self._lane).set(ok)
        self._families.snapshot_headroom.labels(self._lane).set(headroom_seconds)

    def set_generation(self, generation: int) -> None:
        """The generation that writes now."""
        self._families.generation.labels(self._lane).set(generation)

    def set_state(self, state: str) -> None:
        """One of STATES."""
        if state not in STATES:
            raise ValueError(f"{state!r} is not a state of a lane")
        for one in STATES:
            self._families.state.labels(self._lane, one).set(one == state)
        self._families.up.labels(self._lane).set(state == "running")

    def restarted(self, cause: str) -> None:
        """The lane started again; `cause` is a short word, not a message."""
        self._families.restarts.labels(self._lane, cause).inc()

    def fallback(self, plan: str) -> None:
        """An epoch had to take a slower plan."""
        self._families.fallbacks.labels(self._lane, plan).inc()

    def _attempt_seconds(self) -> float:
        begun_at = self._begun_at
        return 0.0 if begun_at is None else time.monotonic() - begun_at

    def _outcome(self, outcome: str) -> Counter:
        return self._families.messages.labels(self._lane, outcome)

    def _at(self, gauge: Gauge, tp: TopicPartition) -> Gauge:
        return gauge.labels(self._lane, tp.topic, str(tp.partition))


class AllMetrics(dict[str, LaneMetrics]):
    """The metrics of every lane of this process by name, made when they are first asked for."""

    def __init__(self, restarts: Mapping[str, int], registry: CollectorRegistry | None = None) -> None:
        """`restarts` of the whole process, so of each of its lanes."""
        super().__init__()
        self._restarts, self._registry = restarts, registry

    def __missing__(self, lane: str) -> LaneMetrics:
        return self.setdefault(lane, LaneMetrics(lane, self._registry, restarts=self._restarts))
