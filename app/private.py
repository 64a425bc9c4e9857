"""Files and folders with rows in them: for their user alone from the moment they are made, whatever the umask is."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

FILE_MODE, FOLDER_MODE = 0o600, 0o700
#: of programs that write such files: what they make is for this user alone
UMASK = 0o077
#: others than the owner
_OTHERS = 0o077


def opened(path: Path, mode: str) -> IO[Any]:
    """`open`, with FILE_MODE for a file that is made by it."""
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, encoding=encoding, opener=lambda name, flags: os.open(name, flags, FILE_MODE))


def write_text(path: Path, text: str) -> None:
    """Write a whole file."""
    with opened(path, "w") as file:
        file.write(text)


def exposed(paths: Iterable[Path]) -> list[Path]:
    """Those that others may read, write or enter: an earlier version made them."""
    return [path for path in paths if path.exists() and path.stat().st_mode & _OTHERS]
