"""The three committers behind one interface."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Protocol

import psycopg2
from sqlalchemy import Connection, Engine, TwoPhaseTransaction
from sqlalchemy.exc import DBAPIError

from app import failpoint
from app.db.failures import UNDEFINED_OBJECT, sqlstate, translated
from app.errors import Diverged
from app.ledger.store import Ledger
from app.model.gid import Gid


class Committer(Protocol):
    """Ends epochs of one lane."""

    #: whether an epoch that the ledger already has is applied again when Spark replays it
    reapplies: bool

    def transaction(self, connection: Connection, gid: Gid) -> AbstractContextManager[None]:
        """Transaction of one epoch on `connection`; leaving it normally pre-commits, an exception rolls back."""
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
    """At-least-once and `commit: ledger`: data and ledger row in one COMMIT.

    They differ in what a replayed epoch does: at-least-once applies it again, the ledger mode finds its row and skips.
    """

    pending: Gid | None = None

    def __init__(self, *, reapplies: bool) -> None:
        self.reapplies = reapplies

    @contextmanager
    def transaction(self, connection: Connection, gid: Gid) -> Iterator[None]:
        """See Committer."""
        del gid  # a one-phase transaction needs no name
        with connection.begin():
            yield
            failpoint.reach("after-ledger")
        failpoint.reach("after-pre-commit")

    def commit(self, only: Gid | None = None) -> bool:
        """Nothing is left to do."""
        del only
        return False

    def abort(self) -> None:
        """Nothing is left undecided."""


class TwoPhase:
    """PREPARE TRANSACTION before Spark's checkpoint entry, COMMIT PREPARED after it."""

    reapplies = False

    def __init__(self, engine: Engine, ledger: Ledger, on_commit: Callable[[], None]) -> None:
        self._engine = engine
        self._ledger = ledger
        self._on_commit = on_commit
        self._ending = Lock()
        self._transaction: TwoPhaseTransaction | None = None
        self.pending: Gid | None = None
        #: monotonic time at which `pending` was prepared
        self.prepared_at = 0.0

    @contextmanager
    def transaction(self, connection: Connection, gid: Gid) -> Iterator[None]:
        """See Committer. If PREPARE itself loses the connection the outcome is unknown: the next start settles it."""
        transaction = connection.begin_twophase(str(gid))
        try:
            yield
            failpoint.reach("after-ledger")
            transaction.prepare()
        except BaseException:
            transaction.rollback()
            raise
        self._transaction, self.pending, self.prepared_at = transaction, gid, time.monotonic()
        failpoint.reach("after-pre-commit")

    def commit(self, only: Gid | None = None) -> bool:
        """See Committer. The connection that prepared is used while it lives, a new one after it died."""
        with self._ending:
            gid = self.pending
            if gid is None or only not in (None, gid):
                return False
            failpoint.reach("before-commit")
            transaction, self._transaction = self._transaction, None
            if transaction is None or not self._ended(transaction, gid):
                end_prepared(self._engine, self._ledger, gid)
            self.pending = None
            failpoint.reach("after-commit")
            self._on_commit()  # under the lock: the next epoch, which waits for it, would take this one's place
        return True

    def abort(self) -> None:
        """See Committer."""
        with self._ending:
            gid, self.pending, self._transaction = self.pending, None, None
            if gid is None:
                return
            with translated(f"ROLLBACK PREPARED {gid}"), self._engine.connect() as connection:
                try:
                    connection.rollback_prepared(str(gid), recover=True)
                except (DBAPIError, psycopg2.Error) as error:
                    connection.rollback()
                    if sqlstate(error) != UNDEFINED_OBJECT:
                        raise

    def _ended(self, transaction: TwoPhaseTransaction, gid: Gid) -> bool:
        try:
            transaction.commit()
        except (DBAPIError, psycopg2.Error):
            return False
        return True


def end_prepared(engine: Engine, ledger: Ledger, gid: Gid) -> None:
    """COMMIT PREPARED; a gid that the server does not know is fine only if the ledger has its epoch.

    The server answers 42704 both after a commit and after a rollback: only the ledger row tells which it was.
    """
    with translated(f"COMMIT PREPARED {gid}"), engine.connect() as connection:
        try:
            connection.commit_prepared(str(gid), recover=True)
        except (DBAPIError, psycopg2.Error) as error:
            connection.rollback()
            if sqlstate(error) != UNDEFINED_OBJECT:
                raise
            if ledger.find(connection, gid.generation, gid.epoch) is None:
                ledger.check_newest(connection, gid.generation)  # a newer writer rolled it back before it was decided
                raise lost(gid) from error


def lost(gid: Gid) -> Diverged:
    """A decided epoch whose transaction is gone."""
    return Diverged.target_behind(
        f"lane {gid.lane}: epoch {gid.epoch} was decided to commit, but its prepared transaction {gid} is gone and the "
        "ledger has no row for it: somebody rolled it back, or the database is an older copy",
        lane=gid.lane,
        position="the ledger's end",
        gid=gid,
    )
