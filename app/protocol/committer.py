"""The committers: in which order they call the participants of an epoch, and what the decision is."""

import time
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
    """Ends the epochs of one lane."""

    #: whether an epoch that the ledger already has is applied again when it is replayed
    reapplies: bool
    #: whether the target is the only participant: nothing of an epoch is left where its transaction cannot be ended
    is_alone: bool

    def transaction(self, work: Work) -> AbstractContextManager[None]:
        """The transaction of one epoch: a normal exit pre-commits, an exception rolls back."""
        ...

    def commit(self, only: Gid | None = None) -> bool:
        """Commit the pre-committed epoch, whose checkpoint entry exists; True if there was one.

        `only`: commit no other epoch; the caller may be late, and the next epoch pre-committed by now. Idempotent and
        thread-safe. Raises Unreachable if it has to be tried again, Diverged if the transaction is gone without having
        been committed.
        """
        ...

    def abort(self) -> None:
        """Roll back a pre-committed epoch that will never be decided: no query runs.

        Raises Unreachable if the server is away; then the next start rolls back.
        """
        ...

    @property
    def pending(self) -> Gid | None:
        """The epoch that is pre-committed and waits for its checkpoint entry."""
        ...


class OnePhase:
    """At-least-once and `commit: ledger`: the target's COMMIT decides, so the others pre-commit before it.

    The modes differ in a replayed epoch: at-least-once applies it again, the ledger mode finds its row and skips it.
    """

    pending: Gid | None = None

    def __init__(self, target: Participant, others: Sequence[Participant] = (), *, reapplies: bool) -> None:
        self._target, self._others = target, others
        self.reapplies, self.is_alone = reapplies, not others

    @contextmanager
    def transaction(self, work: Work) -> Iterator[None]:
        """See Committer. An error after COMMIT was sent leaves the others as they are: the outcome is unknown, so the
        next opening settles them by the ledger."""
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
        """Do nothing: the transaction's end has committed."""
        del only
        return False

    def abort(self) -> None:
        """Do nothing: no epoch stays undecided."""


class TwoPhase:
    """Two-phase: all participants pre-commit before Spark's checkpoint entry, and commit after it."""

    reapplies = False

    def __init__(
        self,
        target: Participant,
        others: Sequence[Participant] = (),
        on_commit: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`on_commit` is called when the epoch is visible, with the seconds that it took to commit the target."""
        self._target, self._others = target, others
        self.is_alone = not others
        self._on_commit = on_commit
        self._ending = Lock()
        self.pending: Gid | None = None

    @contextmanager
    def transaction(self, work: Work) -> Iterator[None]:
        """See Committer. The target prepares last: until then every participant can simply abort."""
        with _undone(work, self._target, self._others):
            yield
            failpoint.reach("after-ledger")
            for other in self._others:
                other.pre_commit()
            self._target.pre_commit()
        self.pending = work.gid
        failpoint.reach("after-pre-commit")

    def commit(self, only: Gid | None = None) -> bool:
        """See Committer. The target commits first: the next start settles the others by its ledger."""
        with self._ending:
            gid = self.pending
            if gid is None or only not in (None, gid):
                return False
            failpoint.reach("before-commit")
            begin = time.perf_counter()
            self._target.commit(gid)
            seconds = time.perf_counter() - begin
            for participant in self._others:
                participant.commit(gid)
            self.pending = None
            failpoint.reach("after-commit")
            self._on_commit(seconds)  # under the lock, or the next epoch could take this one's place before it
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
    """Begin all participants; on an exception inside abort all that have begun."""
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
            except SurelaneError as error:  # the first error is raised
                log.warning("left for the next start to settle", gid=str(work.gid), because=error.message)
        raise
