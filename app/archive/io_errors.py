"""What a file system's refusal means: nothing of the epoch is lost, and no message is to blame."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import Diverged, EnvironmentMissing, Unreachable

#: what passes by itself, or when somebody has made room: the lane tries again
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
def telling(folder: Path, doing: str) -> Iterator[None]:
    """An OSError inside as Unreachable, which is tried again, or as EnvironmentMissing, which stops the lane."""
    try:
        yield
    except OSError as error:
        said = f"archive {folder}: {doing}: {error.strerror or error}"
        if error.errno in _FULL:
            hint = "make room there, or move the archive: the lane goes on by itself, nothing is lost meanwhile"
            raise Unreachable(said, hint=hint) from error
        if error.errno in _PASSES:
            raise Unreachable(said, hint="the lane tries again; look at that file system if it lasts") from error
        hint = "archive.path has to be there and writable by the lane's user; nothing of the epoch was applied"
        raise EnvironmentMissing(said, hint=hint) from error


def broken(path: Path, why: str) -> Diverged:
    """A committed file that is not whole."""
    return Diverged(
        f"archive: {path} is broken: {why}",
        hint="bring back a copy of that file; without it, what it held can only come from Kafka. Nothing was changed",
    )
