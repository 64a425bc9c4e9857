"""What every driver of snapshots does: nobody else asks which one it is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlalchemy.engine import URL

from app.errors import Refused
from app.snapshot.manifest import SnapshotContent, TargetView
from app.snapshot.snapshot_directory import Progress, StoredSnapshot


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where a restore goes. What a driver does not need, it refuses."""

    #: basebackup: a folder; dump: a URL; rds: a name for the new instance
    to: str
    #: basebackup
    port: int | None = None
    max_prepared_transactions: int | None = None
    #: dump: whether things belong to whom they belonged to
    owners: bool = True


@dataclass(frozen=True, kw_only=True)
class Restored:
    """A target that was put back."""

    url: URL
    #: what is in it; None: it could not be asked
    seen: TargetView | None
    #: why not
    trouble: str | None = None
    #: it had been restored by an earlier call, and may have gone on since
    before: bool = False


def too_few_slots(found: str, stored: StoredSnapshot, hint: str) -> Refused:
    """`found`: what has how many slots, in words."""
    least, held = stored.manifest.content.server.max_prepared_transactions, len(stored.manifest.prepared)
    return Refused(
        f"{found}: the snapshot may hold up to {least} prepared transactions ({held} were seen), and a server with "
        "fewer slots than that does not start",
        hint=f"{hint}. Nothing was changed",
    )


class Driver(Protocol):
    """One way to make snapshots."""

    def create(self, name: str, part: Path, progress: Progress) -> SnapshotContent:
        """Take one while the lane runs. What is left in `part/data` belongs to it."""
        ...

    def faults(self, stored: StoredSnapshot, progress: Progress) -> list[str]:
        """What is wrong with it, as its own tools see it; checksums of files are not the driver's."""
        ...

    def delete(self, stored: StoredSnapshot) -> None:
        """What is not in the directory of snapshots; without complaint when it is gone."""
        ...

    def restore(self, stored: StoredSnapshot, destination: Destination, progress: Progress) -> Restored:
        """Put it back somewhere else; called again it goes on, or begins anew, and changes nothing that is done."""
        ...
