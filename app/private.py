"""Files and folders that contain rows: private to their owner from their creation on, whatever the umask is."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

FILE_MODE, FOLDER_MODE = 0o600, 0o700
#: umask of programs that write such files
UMASK = 0o077
#: permission bits of group and others
_OTHERS = 0o077


def opened(path: Path, mode: str) -> IO[Any]:
    """`open`, with FILE_MODE for a file that it creates."""
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, encoding=encoding, opener=lambda name, flags: os.open(name, flags, FILE_MODE))


def write_text(path: Path, text: str) -> None:
    with opened(path, "w") as file:
        file.write(text)


def exposed(paths: Iterable[Path]) -> list[Path]:
    """The paths that others may read, write or enter: an earlier version created them."""
    return [path for path in paths if path.exists() and path.stat().st_mode & _OTHERS]
