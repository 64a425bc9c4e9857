"""Every metric by name, once for each registry: the lanes of one application share them, told apart by a label."""

import threading
import weakref

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from app.metrics.freshness import Freshness

#: seconds; an epoch once warm takes some tenths of a second
STEP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
PREFIX = "surelane"


class Families:
    """The metric families of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, ("lane", *labels), namespace=PREFIX, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, ("lane", *labels), namespace=PREFIX, registry=registry)

        self.epochs = counter("epochs", "Epochs applied")
        self.consumed = counter("messages_consumed", "Messages read from Kafka, the sum of all outcomes")
        self.messages = counter("messages", "Messages by what became of them", "outcome")
        self.restarts = counter("restarts", "Times the lane was started again after a failure", "cause")
        self.fallbacks = counter(
            "fallbacks", "Epochs that the first plan was not enough for, by the plan they took", "plan"
        )
        self.step = Histogram(
            "epoch_step_seconds",
            "Duration of each step of an epoch",
            ("lane", "step"),
            namespace=PREFIX,
            registry=registry,
            buckets=STEP_BUCKETS,
        )
        self.freshness = Freshness(f"{PREFIX}_freshness_seconds", registry)
        self.generation = gauge("generation", "Generation of the lane's writer")
        self.epoch = gauge("epoch", "Number of the last epoch applied")
        self.position = gauge("position", "Next offset to apply", "topic", "partition")
        self.held = gauge(
            "held_messages", "Messages read that wait for the rest of their source transaction, or of a changed key"
        )
        self.lag_messages = gauge(
            "lag_messages", "Offsets between the position and the topic's end", "topic", "partition"
        )
        self.lag_seconds = gauge("lag_seconds", "Age of the oldest message not applied, 0 when caught up")
        self.in_doubt = gauge("in_doubt_transactions", "Prepared transactions of this lane that are not settled")
        self.in_doubt_age = gauge("in_doubt_age_seconds", "Age of the oldest of them, 0 when there is none")
        self.slots_used = gauge("prepared_slots_used", "Prepared transactions on the whole server")
        self.slots_limit = gauge("prepared_slots_limit", "max_prepared_transactions of the server")
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
            "moment when nothing was suspected any more, pauses and restarts included; added at that moment",
        )
        self.parked_keys = gauge("guard_parked_keys", "Keys whose changes wait in quarantine, because on_skip is park")
        self.open = gauge("quarantine_open", "Messages in quarantine that wait for somebody", "state")
        self.quarantined = counter("quarantined", "Messages skipped, by SQLSTATE class or error class", "reason")
        self.letters = counter("dead_letters_sent", "Messages sent to the topic of guard.dead_letter")
        self.letters_waiting = gauge("dead_letters_waiting", "Messages in quarantine that were not sent to it")
        self.letter_failures = counter("dead_letter_failures", "Times that sending to it failed and was put off")
        self.verified_at = gauge("verify_last_timestamp_seconds", "When `surelane verify` was last done, Unix time")
        self.verify_differences = gauge("verify_last_differences", "Keys that it found to differ")
        self.snapshot_at = gauge("snapshot_last_timestamp_seconds", "When the newest snapshot was begun, Unix time")
        self.snapshot_position = gauge(
            "snapshot_position", "Next offset to apply after its restore, at least", "topic", "partition"
        )
        self.snapshot_replayable = gauge(
            "snapshot_replayable", "1 while Kafka has everything from its position on, else 0"
        )
        self.snapshot_headroom = gauge(
            "snapshot_headroom_seconds",
            "So long will it have that, at least; +Inf without a limit of time, NaN when nobody can tell",
        )
        self.state = gauge("state", "1 for the state the lane is in", "state")
        self.up = gauge("up", "1 while the lane is running")


_by_registry: "weakref.WeakKeyDictionary[CollectorRegistry, Families]" = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def families_of(registry: CollectorRegistry) -> Families:
    """The families of `registry`, made at the first call."""
    disable_created_metrics()  # a series more for each counter, which nobody asks for
    with _lock:
        return _by_registry.get(registry) or _by_registry.setdefault(registry, Families(registry))
