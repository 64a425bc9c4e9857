"""Savepoints in a folder of this machine: fsync, then rename."""

import errno
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from app import failpoint
from app.errors import ConfigInvalid
from app.private import FOLDER_MODE, write_text
from app.snapshot.snapshot_directory import sync

_PART, _DISPOSED = ".part-", ".disposed-"
_HINT = "let this user write there, or choose another savepoints.directory"


class LocalPlace:
    """A `Place`. Its folders are for their owner only."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, name: str) -> str:
        return str(self._root / name)

    def names(self) -> list[str]:
        return [one.name for one in self._root.iterdir() if one.is_dir()] if self._root.is_dir() else []

    def has(self, name: str) -> bool:
        return (self._root / name).exists()

    def read(self, name: str, file: str) -> bytes:
        return (self._root / name / file).read_bytes()

    def write(self, name: str, files: Mapping[str, str]) -> None:
        """It exists from the rename on."""
        self._make_root()
        part = self._root / f"{_PART}{name}-{uuid.uuid4().hex}"
        try:
            part.mkdir(mode=FOLDER_MODE)
            *others, last = files
            for one in others:
                write_text(part / one, files[one])
            failpoint.reach("savepoint-before-sums")
            write_text(part / last, files[last])
            for path in (*(part / one for one in files), part):
                sync(path)
            failpoint.reach("savepoint-before-rename")
            try:
                part.rename(self._root / name)  # over an empty folder only
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
            sync(self._root)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def remove(self, name: str) -> None:
        """It is gone from the rename on. Removes what earlier calls have left, too."""
        (self._root / name).rename(self._root / f"{_DISPOSED}{name}-{uuid.uuid4().hex}")
        sync(self._root)
        failpoint.reach("savepoint-disposed")
        for one in self._root.glob(f"{_DISPOSED}*"):
            shutil.rmtree(one, ignore_errors=True)

    def _make_root(self) -> None:
        try:
            self._root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigInvalid(f"savepoints.directory: {self._root} cannot be made: {error}", hint=_HINT) from None
        if not os.access(self._root, os.W_OK):
            raise ConfigInvalid(f"savepoints.directory: {self._root} cannot be written to", hint=_HINT)
