"""Translates errors of the archive's file system: the epoch loses nothing, and no message is to blame."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import Diverged, EnvironmentMissing, Unreachable

#: errors that pass by themselves, or once there is room: the lane tries again
_PASSES = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.EMFILE,
        errno.ENFILE,
        errno.EAGAIN,
        errno.EBUSY,
    }
)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def translated_io(folder: Path, doing: str, *, what: str = "archive", key: str = "archive.path") -> Iterator[None]:
    """Turn an OSError inside into Unreachable, which is tried again, or EnvironmentMissing, which stops the lane.
    `what`, `key`: how a message names the folder, and the setting that it comes from."""
    try:
        yield
    except OSError as error:
        message = f"{what} {folder}: {doing}: {error.strerror or error}"
        if error.errno in _FULL:
            hint = "make room there, or move the folder: the lane goes on by itself, nothing is lost meanwhile"
            raise Unreachable(message, hint=hint) from error
        if error.errno in _PASSES:
            raise Unreachable(message, hint="the lane tries again; look at that file system if it lasts") from error
        hint = f"{key} has to be there and writable by the lane's user; nothing of the epoch was applied"
        raise EnvironmentMissing(message, hint=hint) from error


def broken(path: Path, why: str) -> Diverged:
    """The error for a committed file that is not what was written."""
    return Diverged(
        f"archive: {path} is broken: {why}",
        hint="bring back a copy of that file; without it, what it held can only come from Kafka. Nothing was changed",
    )
