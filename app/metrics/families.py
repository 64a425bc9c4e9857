"""Every metric by name, once for each registry: the lanes of a process share them, distinguished by a label."""

import threading
import weakref
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from app.metrics.freshness import Freshness

#: upper bounds in seconds; a warm epoch takes some tenths of a second
STEP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
PREFIX = "surelane"


@dataclass(frozen=True, kw_only=True)
class Family:
    """A metric family, as docs/METRICS.md shows it."""

    #: name in Prometheus; for a histogram without `_bucket`, `_sum` and `_count`
    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    text: str

    @property
    def series(self) -> tuple[str, ...]:
        """Names of its series in Prometheus."""
        ends = ("_bucket", "_sum", "_count") if self.kind == "histogram" else ("",)
        return tuple(f"{self.name}{end}" for end in ends)


class Families:
    """The metric families of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        #: all families in the order of their definition
        self.all: list[Family] = []

        def noted(name: str, kind: Literal["counter", "gauge", "histogram"], text: str, *labels: str) -> str:
            self.all.append(Family(name=f"{PREFIX}_{name}", kind=kind, labels=("lane", *labels), text=text))
            return text

        def counter(name: str, text: str, *labels: str) -> Counter:
            noted(f"{name}_total", "counter", text, *labels)
            return Counter(name, text, ("lane", *labels), namespace=PREFIX, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            noted(name, "gauge", text, *labels)
            return Gauge(name, text, ("lane", *labels), namespace=PREFIX, registry=registry)

        self.epochs = counter("epochs", "Epochs applied")
        self.consumed = counter("messages_consumed", "Messages read from Kafka, the sum of all outcomes")
        self.messages = counter("messages", "Messages by what became of them", "outcome")
        self.restarts = counter(
            "restarts", "Times the lane was started again after a failure, or its worker after a death", "cause"
        )
        self.fallbacks = counter(
            "fallbacks", "Epochs that the first plan was not enough for, by the plan they took", "plan"
        )
        self.step = Histogram(
            "epoch_step_seconds",
            noted("epoch_step_seconds", "histogram", "Duration of each step of an epoch", "step"),
            ("lane", "step"),
            namespace=PREFIX,
            registry=registry,
            buckets=STEP_BUCKETS,
        )
        self.freshness = Freshness(f"{PREFIX}_freshness_seconds", registry)
        noted("freshness_seconds", "histogram", self.freshness.text)
        self.generation = gauge("generation", "Generation of the lane's writer")
        self.epoch = gauge("epoch", "Number of the last epoch applied")
        self.position = gauge("position", "Next offset to apply", "topic", "partition")
        self.held = gauge(
            "held_messages",
            "Messages read that wait for the rest of their source transaction or a changed key, or for another topic",
        )
        self.query_rows = counter("query_rows", "Rows of a query's result that its epochs have written", "change")
        self.query_unsent = gauge("query_unsent_epochs", "Epochs whose rows are committed and wait for Kafka")
        self.query_state_rows = gauge("query_state_rows", "Keys in the state of a query")
        self.query_state_bytes = gauge("query_state_memory_bytes", "Memory that the state of a query takes")
        self.query_state_commit = gauge(
            "query_state_commit_seconds", "How long the last epoch of a query took to write its state, all partitions"
        )
        self.query_state_load = gauge(
            "query_state_load_seconds",
            "How long the last epoch of a query took to open its state, all partitions; 0 for state in memory",
        )
        self.query_watermark = gauge(
            "query_watermark_timestamp_seconds", "Watermark of a query, Unix time: older event times are late"
        )
        self.lag_messages = gauge(
            "lag_messages", "Offsets between the position and the topic's end", "topic", "partition"
        )
        self.lag_seconds = gauge(
            "lag_seconds", "Age of the oldest message not applied, 0 when caught up, NaN when it has no timestamp"
        )
        self.monitored_at = gauge(
            "monitor_last_timestamp_seconds",
            "When the lane last checked lag, prepared transactions, quarantine and snapshots, Unix time: every "
            "second, while Kafka and the target answer. What these metrics say is as old as that",
        )
        self.in_doubt = gauge(
            "in_doubt_transactions",
            "Prepared transactions of this lane that are not settled; one is prepared for a moment in each epoch",
        )
        self.in_doubt_age = gauge(
            "in_doubt_age_seconds", "Age of the oldest of them by the server's clock, 0 when there is none"
        )
        self.slots_used = gauge("prepared_slots_used", "Prepared transactions on the whole server, of every owner")
        self.slots_limit = gauge("prepared_slots_limit", "max_prepared_transactions of the server")
        self.replica_lag = gauge(
            "replica_lag_seconds",
            "Replay lag of the target's streaming standby that is furthest behind; only with "
            "limits.target_replica_lag, above which the lane waits",
        )
        self.suspects = gauge("guard_suspects", "Spans that are suspected of a failure")
        self.narrowing = gauge(
            "guard_narrowing_messages", "Size of the part in progress while an epoch is processed in parts, else 0"
        )
        self.attempts = gauge("guard_attempts_in_progress", "1 while a span is recorded as being in progress, else 0")
        self.attempt_seconds = gauge(
            "guard_attempt_seconds", "Seconds since the span in progress was begun, 0 when there is none"
        )
        self.depth = gauge(
            "guard_narrowing_depth",
            "How often an epoch of its size is cut into 16 to come to the part in progress, 0 while it goes as a whole",
        )
        self.lost = counter(
            "guard_lost_seconds",
            "Seconds between the first begin of an epoch of which something failed (or whose process died) and the "
            "moment when nothing was suspected any more, pauses and restarts included; added at that moment, and not "
            "at all when the lane stops instead",
        )
        self.parked_keys = gauge(
            "guard_parked_keys",
            "Keys whose changes wait in quarantine because on_skip is park, counted every 5 seconds",
        )
        self.breaker_messages = gauge(
            "guard_breaker_messages",
            "Messages quarantined (not parked) within the last guard.breaker.minutes, counted every 30 seconds; absent "
            "without a breaker",
        )
        self.breaker_limit = gauge(
            "guard_breaker_limit", "guard.breaker.messages: one more, and the lane stops with exit status 14"
        )
        self.open = gauge(
            "quarantine_open", "Messages in quarantine that wait for an operator, counted every 5 seconds", "state"
        )
        self.quarantined = counter(
            "quarantined", "Messages skipped, by SQLSTATE class, error class, or `parked`", "reason"
        )
        self.letters = counter("dead_letters_sent", "Messages sent to the topic of guard.dead_letter")
        self.letters_waiting = gauge("dead_letters_waiting", "Messages in quarantine that were not sent to it")
        self.letter_failures = counter("dead_letter_failures", "Times that sending to it failed and was put off")
        self.verified_at = gauge(
            "verify_last_timestamp_seconds", "When `surelane verify` was last done, Unix time; absent before the first"
        )
        self.verify_differences = gauge("verify_last_differences", "Keys that it found to differ")
        self.snapshot_at = gauge(
            "snapshot_last_timestamp_seconds",
            "When the newest snapshot was begun, Unix time; absent before the first",
        )
        self.savepoint_at = gauge(
            "savepoint_last_timestamp_seconds",
            "When the newest savepoint of `savepoints.every` was made, Unix time; absent without one",
        )
        self.savepoint_failures = counter(
            "savepoint_failures", "Savepoints of `savepoints.every` that failed; each is tried again"
        )
        self.snapshot_position = gauge(
            "snapshot_position", "Next offset to apply after its restore, at least", "topic", "partition"
        )
        self.snapshot_replayable = gauge(
            "snapshot_replayable",
            "1 while the archive and Kafka have everything from its position on, else 0; checked every minute, and "
            "when it is new",
        )
        self.snapshot_headroom = gauge(
            "snapshot_headroom_seconds",
            "So long will they have that, at least, by the first message's timestamp and retention.ms; +Inf without a "
            "limit of time, NaN for a topic that is compacted or limited by bytes",
        )
        self.stage_tasks = gauge(
            "stage_tasks",
            "Stage processes that there are to be, `stage.tasks`",
        )
        self.stage_processes = gauge(
            "stage_processes",
            "Stage processes that are connected, by the host of their executor; all that this process has, whichever "
            "of its lanes they work for",
            "host",
        )
        self.stage_spans = gauge(
            "stage_spans",
            "Spans that were given to stage processes, by host and state: waiting, fetch, decode, function, arrange, "
            "server, staged (waits for its turn), answered, cancelled; without a host while there is no process",
            "host",
            "state",
        )
        self.stage_ahead = gauge("stage_ahead_bytes", "Bytes of decoded rows that are staged ahead of their turn")
        self.stage_ahead_limit = gauge(
            "stage_ahead_limit_bytes", "stage.ahead_bytes: as many may be, of all lanes of this process together"
        )
        self.stage_deaths = counter(
            "stage_deaths",
            "Stage processes that died, of all lanes of this process: by a signal, exit, hang, oom, or with their task",
            "cause",
        )
        self.for_driver = counter(
            "stage_for_driver",
            "Spans that the driver had to process though tasks could have staged them: irregular (changes that cannot "
            "be compacted, malformed messages), failed, no-process, lost (its process died), changed (the "
            "target's tables), refused (by the target, as it was staged), paused (after one of these)",
            "reason",
        )
        self.state = gauge(
            "state", "1 for the state the lane is in: starting, running, waiting, paused, stopped, failed", "state"
        )
        self.up = gauge("up", "1 while the lane runs, also while it waits for a standby or is paused")


_by_registry: "weakref.WeakKeyDictionary[CollectorRegistry, Families]" = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def families_of(registry: CollectorRegistry) -> Families:
    """The families of `registry`, made at the first call."""
    disable_created_metrics()  # else each counter has an additional, unused series
    with _lock:
        return _by_registry.get(registry) or _by_registry.setdefault(registry, Families(registry))
