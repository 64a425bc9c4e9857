"""Running Postgres' own programs, as a user Postgres accepts: it refuses root."""

import subprocess
from pathlib import Path
from typing import Literal

from app.errors import EnvironmentMissing
from app.server_user import server_user
from tools.devstack.postgres_binaries import bin_dir

LOG_TAIL_CHARACTERS = 2000


def run_program(name: Literal["initdb", "pg_ctl", "pg_basebackup"], words: list[str], log_file: Path) -> None:
    """Run the program as the server's user; what it says goes into the message when it fails.

    Not through a pipe: the server would inherit it and hold it open, and reading it would never end.
    """
    user = server_user()
    identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    said = log_file.with_suffix(".out")
    with said.open("w") as out:
        files = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out}
        done = subprocess.run([str(bin_dir() / name), *words], cwd="/", check=False, **files, **identity)
    if done.returncode:
        log = log_file.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] if log_file.exists() else ""
        raise EnvironmentMissing(f"{name} failed:\n{said.read_text()}{log}", hint=f"read {log_file}")
