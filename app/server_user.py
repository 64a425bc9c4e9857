"""The system user that runs a Postgres server of Surelane: Postgres refuses root."""

import os
import pwd
from pathlib import Path

from app.errors import EnvironmentMissing


def server_user() -> pwd.struct_passwd | None:
    """The server's user when this process is root: Debian's `postgres`, else the least privileged; None: this user."""
    if os.getuid() != 0:
        return None
    users = {user.pw_name: user for user in pwd.getpwall()}
    return users.get("postgres") or users["nobody"]


def must_reach(folder: Path, user: pwd.struct_passwd) -> None:
    """Raise EnvironmentMissing when a parent of `folder` is closed to `user`."""
    closed = [parent for parent in folder.resolve().parents if not parent.stat().st_mode & 0o001]
    if closed and user.pw_uid != closed[0].stat().st_uid:
        raise EnvironmentMissing(
            f"for root Postgres runs as {user.pw_name}, who cannot reach {folder}: {closed[0]} is closed",
            hint="use a data directory below /var/tmp",
        )
