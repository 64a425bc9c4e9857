"""Why the driver processes a span that tasks could have staged."""

import enum


class ForDriver(enum.StrEnum):
    """A few words, fit to count by."""

    IRREGULAR = "irregular"  #: it has changes that cannot be compacted, or messages that are malformed
    HELD = "held"  #: it has changes of keys that wait in quarantine
    FAILED = "failed"  #: an error ended its staging: of Kafka, of a message, of the target
    CANCELLED = "cancelled"  #: its process waited too long for tables
    NO_PROCESS = "no-process"  #: no stage process has connected
    LOST = "lost"  #: its process is gone
    CHANGED = "changed"  #: the target's tables have changed since it was staged
    REFUSED = "refused"  #: the target does not take it as it is staged
    PAUSED = "paused"  #: one of the spans right before it was for the driver
