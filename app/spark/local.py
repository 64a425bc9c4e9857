"""Reads a checkpoint on this machine's disk without Spark: for commands, which do not wait for a JVM, and for epochs,
which would wait for it several times each."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from app.errors import EnvironmentMissing, SurelaneError, Unreachable
from app.spark.entries import Entries

#: hosts that a file: URL may name
_HERE = ("", "localhost")


class LocalCheckpoint(Entries):
    """The checkpoint in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self._folder = folder

    def _read(self, name: str) -> str | None:
        with self._reached():
            try:
                return (self._folder / name).read_text("utf-8")
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _exists(self, name: str) -> bool:
        with self._reached():
            try:
                (self._folder / name).stat()
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def _names(self, folder: str) -> list[str]:
        with self._reached():
            try:
                return [path.name for path in (self._folder / folder).iterdir()]
            except (FileNotFoundError, NotADirectoryError):
                return []

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise for an unreadable file: it must not look like a missing one, which is a decision."""
        try:
            yield
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(f"checkpoint {self.location} cannot be read: {error}") from error

    def _unreadable(self, text: str) -> SurelaneError:
        return EnvironmentMissing(
            text, hint="call this as the user that the lane runs as, on its machine; or read a copy: --checkpoint PATH"
        )


class RunningCheckpoint(LocalCheckpoint):
    """The checkpoint of a query that runs in this process, which can write it. Raises Unreachable for an unreadable
    file, as for storage that is away."""

    def _unreadable(self, text: str) -> SurelaneError:
        return Unreachable(text, hint="nothing, unless it lasts: then look at the disk")


def local_folder(location: str) -> Path | None:
    """The folder that a path or a `file:` URL names, None for another file system.

    Hadoop does not decode the path of a URL: `%20` in it is no space.
    """
    if location.startswith("/"):
        return Path(location)
    scheme, host, path, _, _ = urlsplit(location)
    return Path(path) if scheme == "file" and host in _HERE else None
