"""The thread that commits without waiting for the next epoch: only what is decided, and in spite of everything."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest

from app.errors import Diverged, Unreachable
from app.model.gid import Gid
from app.protocol.checkpoint_watcher import CheckpointWatcher
from app.protocol.participant import Work
from app.protocol.pending_epochs import PendingEpochs
from tests.waiting import eventually

FIRST, SECOND = Gid("orders", 1, 1), Gid("orders", 1, 2)


class Recorder:
    """Stands in for a committer: keeps what was committed, fails on request."""

    reapplies, is_alone = False, True

    def __init__(self, *failures: Exception) -> None:
        self.pending: Gid | None = FIRST
        self.committed: list[Gid] = []
        self.failures: list[Exception] = list(failures)

    def transaction(self, work: Work) -> AbstractContextManager[None]:
        """Not used here."""
        del work
        return nullcontext()

    def commit(self, only: Gid | None = None) -> bool:
        """See Committer."""
        if self.failures:
            raise self.failures.pop(0)
        if self.pending is None or only not in (None, self.pending):
            return False
        self.committed.append(self.pending)
        self.pending = None
        return True

    def abort(self) -> None:
        """Not used here."""


class Checkpoint:
    """Stands in for Spark's checkpoint: knows which epochs are complete."""

    def __init__(self) -> None:
        self.complete: set[int] = set()
        self.asked = 0
        self.failures: list[Exception] = []

    def __call__(self, epoch: int) -> bool:
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return epoch in self.complete


@pytest.fixture
def checkpoint() -> Checkpoint:
    """Nothing is complete."""
    return Checkpoint()


@pytest.fixture
def committer() -> Recorder:
    """The first epoch is pre-committed."""
    return Recorder()


@pytest.fixture
def watcher(committer: Recorder, checkpoint: Checkpoint) -> Iterator[CheckpointWatcher]:
    """A running one."""
    made = CheckpointWatcher(PendingEpochs(lambda: [committer], checkpoint))
    made.start()
    yield made
    made.stop()


def test_what_the_checkpoint_has_not_decided_waits(
    watcher: CheckpointWatcher, committer: Recorder, checkpoint: Checkpoint
) -> None:
    watcher.notice()
    eventually(lambda: checkpoint.asked > 5, why="some looks")
    assert committer.committed == []
    checkpoint.complete = {1}
    eventually(lambda: committer.committed == [FIRST], why="the commit")


def test_the_next_epoch_is_not_taken_for_the_one_that_was_asked_about(committer: Recorder) -> None:
    """Object stores answer late: meanwhile the lane has settled the first epoch itself and pre-committed the second."""
    answers = 0

    def late(epoch: int) -> bool:
        nonlocal answers
        answers += 1
        committer.pending = SECOND
        return epoch == FIRST.epoch

    watcher = CheckpointWatcher(PendingEpochs(lambda: [committer], late))
    watcher.start()
    watcher.notice()
    eventually(lambda: answers > 5, why="some looks")
    watcher.stop()
    assert committer.committed == []


def test_a_database_or_a_storage_that_is_away_is_tried_again(
    watcher: CheckpointWatcher, committer: Recorder, checkpoint: Checkpoint
) -> None:
    committer.failures = [Unreachable(), Unreachable()]
    checkpoint.failures = [Unreachable()]
    checkpoint.complete = {1}
    watcher.notice()
    eventually(lambda: committer.committed == [FIRST], why="the commit")
    assert watcher.failure is None


def test_what_no_retry_can_mend_is_kept_for_the_lane(
    watcher: CheckpointWatcher, committer: Recorder, checkpoint: Checkpoint
) -> None:
    lost = Diverged()
    committer.failures = [lost]
    checkpoint.complete = {1}
    watcher.notice()
    eventually(lambda: watcher.failure is lost, why="the failure")


def test_it_ends_though_something_is_pending(watcher: CheckpointWatcher, committer: Recorder) -> None:
    watcher.notice()
    watcher.stop()
    assert committer.pending == FIRST
    watcher.stop()
