"""Data directories of the local stacks.

One folder for each user below /var/tmp: it survives a reboot, and when root runs the stack, the unprivileged user
that Postgres runs as can reach it (it cannot reach root's home).
"""

import os
from pathlib import Path

from app.errors import EnvironmentMissing


def root_dir() -> Path:
    """This user's folder; created if missing. Raises EnvironmentMissing if another user owns it."""
    path = Path("/var/tmp") / f"surelane-{os.getuid()}"
    path.mkdir(mode=0o755, exist_ok=True)
    if path.stat().st_uid != os.getuid() or path.is_symlink():
        raise EnvironmentMissing(f"{path} belongs to another user", hint=f"remove {path}, then run again")
    return path


def stack_dir(name: str) -> Path:
    return root_dir() / name
