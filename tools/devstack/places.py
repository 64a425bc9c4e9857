"""Where the local stack keeps its data.

Below /var/tmp, one folder a user: it survives a reboot, and the unprivileged user under which Postgres runs for root
can reach it (root's home it cannot).
"""

import os
from pathlib import Path

from app.errors import EnvironmentMissing


def root_dir() -> Path:
    """This user's folder; made if missing, refused if somebody else made it."""
    path = Path("/var/tmp") / f"surelane-{os.getuid()}"
    path.mkdir(mode=0o755, exist_ok=True)
    if path.stat().st_uid != os.getuid() or path.is_symlink():
        raise EnvironmentMissing(f"{path} belongs to another user", hint=f"remove {path}, then run again")
    return path


def stack_dir(name: str) -> Path:
    """The data directory of the stack called `name`."""
    return root_dir() / name
