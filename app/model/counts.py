"""Accounting of one epoch: each consumed message is in exactly one other count."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Messages of an epoch by outcome. `adds_up` is checked before the epoch's transaction ends."""

    #: messages read from Kafka
    consumed: int = 0
    #: messages whose row change was sent to the target
    applied: int = 0
    #: messages replaced by a later change of the same key in the same epoch
    compacted: int = 0
    #: messages without a row change for this target: tombstones, heartbeats, transaction markers, ignored tables
    filtered: int = 0
    #: messages applied before (the ledger has the epoch)
    duplicate: int = 0
    #: messages skipped and kept in quarantine
    quarantined: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{name: count + getattr(other, name) for name, count in self.as_dict().items()})

    @property
    def adds_up(self) -> bool:
        """Whether consumed = applied + compacted + filtered + duplicate + quarantined."""
        parts = self.applied + self.compacted + self.filtered + self.duplicate + self.quarantined
        return self.consumed == parts

    def as_dict(self) -> dict[str, int]:
        """Counts by name, in the ledger's column order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
