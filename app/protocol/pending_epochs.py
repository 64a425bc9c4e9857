"""The pre-committed epochs of the lanes that share one checkpoint: its `commits/` entries decide them."""

import time
from collections.abc import Callable

from app.protocol.committer import Committer

#: seconds between two looks for a checkpoint entry that is waited for
LOOK_SECONDS = 0.1


class PendingEpochs:
    """Ends what is pending, while the query runs (`commit`, by `CheckpointWatcher`) and after it has ended."""

    def __init__(self, committers: Callable[[], list[Committer]], is_complete: Callable[[int], bool]) -> None:
        """`is_complete`: whether the checkpoint has the entry of an epoch."""
        self._committers, self._is_complete = committers, is_complete

    @property
    def waiting(self) -> list[Committer]:
        """The committers with a pending epoch."""
        return [committer for committer in self._committers() if committer.pending is not None]

    def commit(self, committer: Committer) -> bool:
        """Commit the pending epoch if the checkpoint has its entry. Raises what `Committer.commit` does."""
        gid = committer.pending
        return gid is not None and self._is_complete(gid.epoch) and committer.commit(gid)

    def finish(self, seconds: float) -> None:
        """Wait at most so long for the entries, and commit what they decide; the next start settles the others."""
        deadline = time.monotonic() + seconds
        for committer in self.waiting:
            while not self.commit(committer) and committer.pending is not None and time.monotonic() < deadline:
                time.sleep(LOOK_SECONDS)

    def end(self) -> None:
        """Commit or roll back, once the query has ended: an entry that is missing will not appear any more."""
        for committer in self.waiting:
            if not self.commit(committer):
                committer.abort()
