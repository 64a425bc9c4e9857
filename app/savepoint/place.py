"""Where savepoints are kept. A place has folders with a few small files each, and knows nothing of their content."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from app.savepoint.local_place import LocalPlace

#: the file that makes a folder whole: it has the checksums of the others
SEAL = "SHA256SUMS"


class Place(Protocol):
    """All calls raise ConfigInvalid where the place cannot be used."""

    def folder(self, name: str) -> str:
        """What a folder is called outside; it need not be there."""
        ...

    def names(self) -> list[str]:
        """Of all folders, also of half written ones if they are to be seen; empty where the place is not made yet."""
        ...

    def has(self, name: str) -> bool:
        """Whether `write` would refuse the name."""
        ...

    def read(self, name: str, file: str) -> bytes:
        """Raises OSError where the file is not there or cannot be read."""
        ...

    def write(self, name: str, files: Mapping[str, str]) -> None:
        """Write a folder: whole from the last file on, and before that not there, or to be seen as half written. Makes
        the place if need be. Raises FileExistsError for a name that is taken."""
        ...

    def remove(self, name: str) -> None:
        """Remove a folder, also a half written one. Killed in between, it leaves none that is whole."""
        ...


def place_of(directory: str | Path) -> Place:
    """The place of `savepoints.directory`. Touches nothing."""
    if not is_remote(directory):
        return LocalPlace(Path(directory))
    from app.savepoint.remote_place import RemotePlace  # its clients are large, and few need them

    return RemotePlace(str(directory))


def is_remote(directory: str | Path) -> bool:
    """Whether a client of a file system is needed, which starts threads in its process."""
    return "://" in str(directory)
