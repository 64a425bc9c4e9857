"""The interface of snapshot drivers: code outside the drivers does not depend on which one it is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlalchemy.engine import URL

from app.errors import Refused
from app.snapshot.manifest import SnapshotContent, TargetView
from app.snapshot.snapshot_directory import Progress, StoredSnapshot


@dataclass(frozen=True, kw_only=True)
class RestorePlace:
    """The destination of a restore. A driver refuses options that it does not use."""

    #: basebackup: a folder; dump: a URL; rds: the new instance's name
    to: str
    #: basebackup
    port: int | None = None
    max_prepared_transactions: int | None = None
    #: dump: whether objects keep their owners and privileges
    owners: bool = True


@dataclass(frozen=True, kw_only=True)
class Restored:
    url: URL
    #: its lanes and prepared transactions; None: it could not be queried
    seen: TargetView | None
    #: why not
    trouble: str | None = None
    #: an earlier call restored it, so it may have changed since
    before: bool = False


def too_few_slots(found: str, stored: StoredSnapshot, hint: str) -> Refused:
    """The error for a server with too few slots. `found`: a text of what has how many."""
    least, held = stored.manifest.content.server.max_prepared_transactions, len(stored.manifest.prepared)
    return Refused(
        f"{found}: the snapshot may hold up to {least} prepared transactions ({held} were seen), and a server with "
        "fewer slots than that does not start",
        hint=f"{hint}. Nothing was changed",
    )


class Driver(Protocol):
    """One kind of snapshot."""

    def create(self, name: str, part: Path, progress: Progress) -> SnapshotContent:
        """Take a snapshot while the lane runs. Files left in `part/data` are part of it."""
        ...

    def faults(self, stored: StoredSnapshot, progress: Progress) -> list[str]:
        """Faults that the driver's tools find; files' checksums are checked elsewhere."""
        ...

    def delete(self, stored: StoredSnapshot) -> None:
        """Delete what is outside the directory of snapshots; no error if it is gone."""
        ...

    def restore(self, stored: StoredSnapshot, destination: RestorePlace, progress: Progress) -> Restored:
        """Restore to another place. A repeated call continues or starts over, and changes nothing that is done."""
        ...
