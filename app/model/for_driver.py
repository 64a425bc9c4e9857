"""Reasons why the driver processes a span that tasks could have staged."""

import enum


class ForDriver(enum.StrEnum):
    """Labels of low cardinality for metrics."""

    IRREGULAR = "irregular"  #: it has changes that cannot be compacted, or malformed messages
    HELD = "held"  #: it has changes of keys that wait in quarantine
    FAILED = "failed"  #: an error of Kafka, a message or the target ended its staging
    NO_PROCESS = "no-process"  #: no stage process has connected
    LOST = "lost"  #: its process has died
    CHANGED = "changed"  #: the target's tables have changed since it was staged
    REFUSED = "refused"  #: the target refuses the staged rows
    PAUSED = "paused"  #: the driver had to process one of the spans directly before it
