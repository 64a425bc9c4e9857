"""Runs Postgres' programs as an unprivileged user: Postgres refuses root."""

import subprocess
from pathlib import Path
from typing import Literal

from app.errors import EnvironmentMissing
from app.server_user import server_user
from tools.devstack.postgres_binaries import bin_dir

LOG_TAIL_CHARACTERS = 2000


def run_program(name: Literal["initdb", "pg_ctl", "pg_basebackup"], words: list[str], log_file: Path) -> None:
    """Run the program as the server's user; raises EnvironmentMissing with its output when it fails.

    The output goes to a file, not a pipe: the server would inherit the pipe and keep it open, so reading would not end.
    """
    user = server_user()
    identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    output = log_file.with_suffix(".out")
    with output.open("w") as out:
        files = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out}
        done = subprocess.run([str(bin_dir() / name), *words], cwd="/", check=False, **files, **identity)
    if done.returncode:
        log = log_file.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] if log_file.exists() else ""
        raise EnvironmentMissing(f"{name} failed:\n{output.read_text()}{log}", hint=f"read {log_file}")
