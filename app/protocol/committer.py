"""The committers behind one interface: in which order the participants of an epoch are asked, and what decides."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Protocol

import structlog

from app import failpoint
from app.errors import SurelaneError
from app.model.gid import Gid
from app.protocol.participant import Participant, Work

log = structlog.get_logger()


class Committer(Protocol):
    """Ends epochs of one lane."""

    #: whether an epoch that the ledger already has is applied again when Spark replays it
    reapplies: bool

    def transaction(self, work: Work) -> AbstractContextManager[None]:
        """Transaction of one epoch; leaving it normally pre-commits, an exception rolls back."""
        ...

    def commit(self, only: Gid | None = None) -> bool:
        """Commit what is pre-committed, now that its checkpoint entry exists; True if there was something.

        With `only` nothing but that: whoever saw the entry may be late, and the next epoch pre-committed by now.
        Idempotent and safe from any thread. Raises Unreachable when it has to be tried again, Diverged when the
        transaction is gone without having been committed.
        """
        ...

    def abort(self) -> None:
        """Roll back what is pre-committed and will never be decided, because Spark's query has ended.

        Raises Unreachable when the server is away; the next start rolls back then.
        """
        ...

    @property
    def pending(self) -> Gid | None:
        """What is pre-committed and waits for its checkpoint entry."""
        ...


class OnePhase:
    """At-least-once and `commit: ledger`: the target's COMMIT decides, so everybody else is ready before it.

    They differ in what a replayed epoch does: at-least-once applies it again, the ledger mode finds its row and skips.
    """

    pending: Gid | None = None

    def __init__(self, target: Participant, others: Sequence[Participant] = (), *, reapplies: bool) -> None:
        self._target, self._others = target, others
        self.reapplies = reapplies

    @contextmanager
    def transaction(self, work: Work) -> Iterator[None]:
        """See Committer. What fails after the target was asked leaves the others as they are: nobody here knows what it
        has answered, so the next opening asks the ledger."""
        with _undone(work, self._target, self._others):
            yield
            failpoint.reach("after-ledger")
            for other in self._others:
                other.pre_commit()
        self._target.pre_commit()
        failpoint.reach("after-pre-commit")
        for other in self._others:
            other.commit(work.gid)

    def commit(self, only: Gid | None = None) -> bool:
        """Nothing is left to do."""
        del only
        return False

    def abort(self) -> None:
        """Nothing is left undecided."""


class TwoPhase:
    """Everybody pre-commits before Spark's checkpoint entry, and commits after it."""

    reapplies = False

    def __init__(
        self, target: Participant, others: Sequence[Participant] = (), on_commit: Callable[[], None] = lambda: None
    ) -> None:
        self._target, self._others = target, others
        self._on_commit = on_commit
        self._ending = Lock()
        self.pending: Gid | None = None

    @contextmanager
    def transaction(self, work: Work) -> Iterator[None]:
        """See Committer. The target last: until it has prepared, an epoch is undone without asking anybody."""
        with _undone(work, self._target, self._others):
            yield
            failpoint.reach("after-ledger")
            for other in self._others:
                other.pre_commit()
            self._target.pre_commit()
        self.pending = work.gid
        failpoint.reach("after-pre-commit")

    def commit(self, only: Gid | None = None) -> bool:
        """See Committer. The target first: its ledger tells the next start what the others have to do."""
        with self._ending:
            gid = self.pending
            if gid is None or only not in (None, gid):
                return False
            failpoint.reach("before-commit")
            for participant in (self._target, *self._others):
                participant.commit(gid)
            self.pending = None
            failpoint.reach("after-commit")
            self._on_commit()  # under the lock: the next epoch, which waits for it, would take this one's place
        return True

    def abort(self) -> None:
        """See Committer."""
        with self._ending:
            gid, self.pending = self.pending, None
            if gid is not None and self._target.abort(gid):
                for other in self._others:
                    other.abort(gid)


@contextmanager
def _undone(work: Work, target: Participant, others: Sequence[Participant]) -> Iterator[None]:
    """All begin; an exception inside undoes it for all."""
    begun: list[Participant] = []
    try:
        for participant in (target, *others):
            begun.append(participant)
            participant.begin(work)
        yield
    except BaseException:
        for participant in begun:
            try:
                participant.abort(work.gid)
            except SurelaneError as error:  # what went wrong first is what matters
                log.warning("left for the next start to settle", gid=str(work.gid), because=error.message)
        raise
