"""The new lines of a file that another process writes, and that may be rotated or truncated meanwhile."""

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

#: most bytes of a reading; of a file that has more behind the last reading the rest is left out
TAIL_BYTES = 8 << 20
#: bytes before the place where the next reading begins, by which the file is known again
_MARK_BYTES = 128


class LogFile:
    """Remembers where the last reading ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: device and inode
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self._mark = b""

    def new_lines(self) -> list[bytes]:
        """Whole lines since the last call; none of a file that cannot be read."""
        try:
            with self.path.open("rb") as opened:
                found = _identity(os.fstat(opened.fileno()))
                rest = self._rest_of_renamed() if self._file not in (None, found) else []
                if found != self._file or not self._goes_on(opened):
                    self._file, self._offset, self._mark = found, 0, b""
                return rest + self._read(opened)
        except OSError:
            return []

    def _goes_on(self, opened: BinaryIO) -> bool:
        """Whether the file has still what was read last: one that was truncated may have grown again."""
        opened.seek(self._offset - len(self._mark))
        return opened.read(len(self._mark)) == self._mark

    def _read(self, opened: BinaryIO) -> list[bytes]:
        size = opened.seek(0, os.SEEK_END)
        first = max(self._offset, size - TAIL_BYTES)
        opened.seek(first)
        whole, newline, _ = opened.read(size - first).rpartition(b"\n")
        if not newline:
            return []
        lines = whole.split(b"\n")
        if first > self._offset:
            del lines[0]
        self._offset, self._mark = first + len(whole) + 1, (whole + newline)[-_MARK_BYTES:]
        return lines

    def _rest_of_renamed(self) -> list[bytes]:
        """What was written between the last reading and the rotation, where the old file is beside the new one."""
        for beside in self.path.parent.glob(f"{self.path.name}*"):
            with suppress(OSError), beside.open("rb") as opened:
                if _identity(os.fstat(opened.fileno())) == self._file and self._goes_on(opened):
                    return self._read(opened)
        return []


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
