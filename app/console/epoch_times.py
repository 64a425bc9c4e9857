"""When a checkpoint on this machine planned an epoch, and when it decided it: the times of its entries' files."""

from pathlib import Path
from typing import Any

from app.errors import Diverged, EnvironmentMissing
from app.model.utc import utc_time
from app.spark.local import LocalCheckpoint, local_folder

#: where they are not known
NO_TIMES: dict[str, Any] = {"planned_at": None, "decided_at": None}


def checkpoint_times(location: str, epoch: int, checkpoint: str | None) -> dict[str, Any]:
    """`planned_at` and `decided_at`; `trouble`: why they are not known. `checkpoint`: id of the one that the epoch ran
    on."""
    folder = local_folder(location)
    if folder is None:
        return NO_TIMES | {"trouble": f"the checkpoint {location} is not on a disk of this machine"}
    try:
        identity = LocalCheckpoint(folder).identity()
        if identity is None:
            return NO_TIMES | {"trouble": f"there is no checkpoint at {location} on this machine"}
        if identity.checkpoint != checkpoint:
            return NO_TIMES | {"trouble": "the epoch ran on another checkpoint than the present one"}
        planned, decided = (_time(folder / kind / str(epoch)) for kind in ("offsets", "commits"))
    except (Diverged, EnvironmentMissing, OSError) as error:
        return NO_TIMES | {"trouble": error.message if isinstance(error, Diverged | EnvironmentMissing) else str(error)}
    trouble = None if planned or decided else "Spark has removed the epoch's entries: it keeps the newest ones"
    return {"planned_at": planned, "decided_at": decided, "trouble": trouble}


def _time(file: Path) -> str | None:
    try:
        at = file.stat().st_mtime
    except FileNotFoundError:
        return None
    return utc_time(at).isoformat()
