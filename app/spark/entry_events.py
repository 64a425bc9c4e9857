"""Reports the entries that Spark writes into a folder of its checkpoint, as soon as they are there."""

import os
import select
from contextlib import suppress
from pathlib import Path

from inotify_simple import INotify, flags

#: seconds that a wait lasts at most where the kernel reports entries: it may have missed one
LOOK_SECONDS = 0.25


class EntryEvents:
    """Used by one thread; any thread may call `wake`."""

    def __init__(self, folder: Path | None) -> None:
        """`folder`: None for a checkpoint on another file system, where nothing is reported."""
        self._folder = folder
        self._inotify: INotify | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poller = select.poll()
        self._poller.register(self._wake, select.POLLIN)

    @property
    def are_reported(self) -> bool:
        """Whether entries are reported from now on."""
        if self._inotify is None and self._folder is not None and self._folder.is_dir():
            try:
                inotify = INotify(nonblocking=True)
                inotify.add_watch(self._folder, flags.MOVED_TO)  # Spark renames what it has written
            except OSError:  # fs.inotify.max_user_instances is reached
                self._folder = None
                return False
            self._poller.register(inotify.fileno(), select.POLLIN)
            self._inotify = inotify
        return self._inotify is not None

    def wait(self, seconds: float) -> list[str]:
        """Wait for entries, or until `wake`; where they are not reported, `seconds`. Returns their names."""
        wait = LOOK_SECONDS if self.are_reported else seconds
        if not self._poller.poll(wait * 1000) or self._inotify is None:
            return []
        with suppress(BlockingIOError):
            return [event.name for event in self._inotify.read(timeout=0)]
        return []

    def wake(self) -> None:
        """End the present wait, and all later ones."""
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """No thread waits any more."""
        if self._inotify is not None:
            self._inotify.close()
        os.close(self._wake)
