"""The metrics of a lane for Prometheus."""

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
STATES = ("starting", "running", "waiting", "paused", "stopped", "failed")
OUTCOMES = tuple(outcome for outcome in Counts().as_dict() if outcome != "consumed")


class LaneMetrics:
    """The metrics of one lane; safe to call from any thread."""

    def __init__(
        self, lane: str, registry: CollectorRegistry | None = None, *, restarts: Mapping[str, int] | None = None
    ) -> None:
        """`restarts`: number of restarts before this process, by cause."""
        self._lane = lane
        self._families = families_of(registry or REGISTRY)
        #: monotonic start of the attempt in progress
        self._begun_at: float | None = None
        for counter in (self._families.epochs, self._families.consumed, self._families.lost):
            counter.labels(lane)  # create each counter with 0, else Prometheus does not see its first increase
        for outcome in OUTCOMES:
            self._outcome(outcome)
        for reason in ForDriver:
            self._families.for_driver.labels(lane, reason.value)
        for cause in (*(one.value for one in Cause), TASK_GONE):
            self._families.stage_deaths.labels(lane, cause)
        #: hosts of stage processes
        self._hosts: set[str] = set()
        self._families.attempt_seconds.labels(lane).set_function(self._attempt_seconds)
        self.set_state("starting")
        for cause, count in (restarts or {}).items():
            self._families.restarts.labels(lane, cause).inc(count)

    def epoch_done(
        self, record: EpochRecord, steps: Mapping[str, float], freshness_seconds: NDArray[np.float64]
    ) -> None:
        """Count a visible epoch: its ledger row, seconds by step, and the freshness of each change."""
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
        """Set the position, where the lane continues."""
        for tp, offset in position.items():
            self._at(self._families.position, tp).set(offset)

    def set_held(self, messages: int) -> None:
        """Set the number of messages that are read and not applied yet; see `app.lane.alignment`."""
        self._families.held.labels(self._lane).set(messages)

    def set_stage(self, seen: InFlightView, *, processes: Mapping[str, int], tasks: int, limit: int) -> None:
        """Set the lane's spans in flight, connected `processes` by host, the configured number of `tasks`, and the
        `limit` of bytes staged ahead."""
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
        """Count the death of a stage process; `cause` is a label of low cardinality."""
        self._families.stage_deaths.labels(self._lane, cause).inc()

    def for_driver(self, reason: ForDriver) -> None:
        """Count a span that the driver processes though tasks could have staged it."""
        self._families.for_driver.labels(self._lane, reason.value).inc()

    def query_rows(self, upserted: int, deleted: int) -> None:
        """Count rows of a query's result that an epoch has written."""
        self._families.query_rows.labels(self._lane, "upserted").inc(upserted)
        self._families.query_rows.labels(self._lane, "deleted").inc(deleted)

    def set_query_unsent(self, batches: int) -> None:
        """Set how many epochs of rows wait for Kafka."""
        self._families.query_unsent.labels(self._lane).set(batches)

    def set_query_state(
        self, *, rows: int, memory_bytes: int, commit_seconds: float, load_seconds: float, watermark: float | None
    ) -> None:
        """Set the state of a query: keys, bytes in memory, seconds that its last epoch took to write it and to find it,
        and the watermark as Unix time."""
        families = self._families
        families.query_state_rows.labels(self._lane).set(rows)
        families.query_state_bytes.labels(self._lane).set(memory_bytes)
        families.query_state_commit.labels(self._lane).set(commit_seconds)
        families.query_state_load.labels(self._lane).set(load_seconds)
        if watermark is not None:
            families.query_watermark.labels(self._lane).set(watermark)

    def set_lag(self, messages: Mapping[TopicPartition, int], seconds: float | None) -> None:
        """Set the offsets still to apply, and the age of the oldest one; None when it is unknown."""
        for tp, count in messages.items():
            self._at(self._families.lag_messages, tp).set(count)
        self._families.lag_seconds.labels(self._lane).set(math.nan if seconds is None else seconds)

    def monitored(self, at: float) -> None:
        """Set the Unix time of the last complete monitor round."""
        self._families.monitored_at.labels(self._lane).set(at)

    def set_in_doubt(self, count: int, age_seconds: float) -> None:
        """Set the number of prepared transactions of this lane, and the age of the oldest."""
        self._families.in_doubt.labels(self._lane).set(count)
        self._families.in_doubt_age.labels(self._lane).set(age_seconds)

    def set_prepared_slots(self, used: int, limit: int) -> None:
        """Set the number of prepared transactions on the server, and its limit."""
        self._families.slots_used.labels(self._lane).set(used)
        self._families.slots_limit.labels(self._lane).set(limit)

    def set_guard(self, *, suspects: int, narrowing: int, depth: int, begun_at: float | None) -> None:
        """Set the number of suspects. `narrowing`: offsets of the part in progress; `depth`: number of its cuts; both
        are 0 for a whole epoch. `begun_at`: monotonic start of the attempt in progress, None without one."""
        self._begun_at = begun_at
        self._families.suspects.labels(self._lane).set(suspects)
        self._families.narrowing.labels(self._lane).set(narrowing)
        self._families.depth.labels(self._lane).set(depth)
        self._families.attempts.labels(self._lane).set(begun_at is not None)

    def lost(self, seconds: float) -> None:
        """Count the time that suspects took."""
        self._families.lost.labels(self._lane).inc(seconds)

    def set_quarantine(self, open_entries: Mapping[str, int], parked_keys: int) -> None:
        """Set the number of open quarantine entries by state, and of parked keys."""
        for state, count in open_entries.items():
            self._families.open.labels(self._lane, state).set(count)
        self._families.parked_keys.labels(self._lane).set(parked_keys)

    def set_breaker(self, messages: int, limit: int) -> None:
        """Set the number of messages that count for the breaker, and its limit."""
        self._families.breaker_messages.labels(self._lane).set(messages)
        self._families.breaker_limit.labels(self._lane).set(limit)

    def quarantined(self, reason: str) -> None:
        """Count a skipped message; `reason` is a class of failures."""
        self._families.quarantined.labels(self._lane, reason).inc()

    def dead_letter_sent(self) -> None:
        """Count a dead letter that is in its topic."""
        self._families.letters.labels(self._lane).inc()

    def dead_letter_failed(self) -> None:
        """Count a failure, after which sending pauses."""
        self._families.letter_failures.labels(self._lane).inc()

    def set_dead_letters_waiting(self, count: int) -> None:
        """Set the number of skipped messages that are not sent yet."""
        self._families.letters_waiting.labels(self._lane).set(count)

    def set_verified(self, at: datetime.datetime, differing: int) -> None:
        """Set the time and the number of differing keys of the last `surelane verify`."""
        self._families.verified_at.labels(self._lane).set(at.timestamp())
        self._families.verify_differences.labels(self._lane).set(differing)

    def set_snapshot(self, at: datetime.datetime, position: Offsets) -> None:
        """Set the start time of the newest snapshot of the target, and the position that it contains at least."""
        self._families.snapshot_at.labels(self._lane).set(at.timestamp())
        for tp, offset in position.items():
            self._at(self._families.snapshot_position, tp).set(offset)

    def set_savepoint(self, at: datetime.datetime) -> None:
        """Set the time of the newest periodic savepoint."""
        self._families.savepoint_at.labels(self._lane).set(at.timestamp())

    def savepoint_failed(self) -> None:
        self._families.savepoint_failures.labels(self._lane).inc()

    def set_replayable(self, ok: bool, headroom_seconds: float) -> None:
        """Set whether all messages after the newest snapshot are available, and for how long they will be."""
        self._families.snapshot_replayable.labels(self._lane).set(ok)
        self._families.snapshot_headroom.labels(self._lane).set(headroom_seconds)

    def set_replica_lag(self, seconds: float) -> None:
        """Set how far the standby that is furthest behind has to go, in seconds."""
        self._families.replica_lag.labels(self._lane).set(seconds)

    def set_generation(self, generation: int) -> None:
        """Set the generation that writes now."""
        self._families.generation.labels(self._lane).set(generation)

    def set_state(self, state: str) -> None:
        """Set the state; raises ValueError for one that is not in STATES."""
        if state not in STATES:
            raise ValueError(f"{state!r} is not a state of a lane")
        for one in STATES:
            self._families.state.labels(self._lane, one).set(one == state)
        self._families.up.labels(self._lane).set(state in ("running", "waiting", "paused"))

    def restarted(self, cause: str) -> None:
        """Count a restart of the lane; `cause` is a label of low cardinality."""
        self._families.restarts.labels(self._lane, cause).inc()

    def fallback(self, plan: str) -> None:
        """Count an epoch that had to take a slower plan."""
        self._families.fallbacks.labels(self._lane, plan).inc()

    def _attempt_seconds(self) -> float:
        begun_at = self._begun_at
        return 0.0 if begun_at is None else time.monotonic() - begun_at

    def _outcome(self, outcome: str) -> Counter:
        return self._families.messages.labels(self._lane, outcome)

    def _at(self, gauge: Gauge, tp: TopicPartition) -> Gauge:
        return gauge.labels(self._lane, tp.topic, str(tp.partition))


class AllMetrics(dict[str, LaneMetrics]):
    """The metrics of every lane of this process by name, created on first access."""

    def __init__(self, restarts: Mapping[str, int], registry: CollectorRegistry | None = None) -> None:
        """`restarts`: of the whole process, so of each of its lanes."""
        super().__init__()
        self._restarts, self._registry = restarts, registry

    def __missing__(self, lane: str) -> LaneMetrics:
        return self.setdefault(lane, LaneMetrics(lane, self._registry, restarts=self._restarts))
