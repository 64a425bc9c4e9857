"""The target as a participant: with a prepared transaction, or with one COMMIT that decides."""

import psycopg2
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from app.db.joined import TransactionBlock
from app.db.prepared import prepared
from app.db.sql import literal
from app.db.sqlstate import UNDEFINED_OBJECT, sqlstate, translated
from app.errors import Diverged
from app.ledger.store import Ledger
from app.model.gid import Gid
from app.protocol.participant import Work


class PreparedTarget:
    """Two-phase: PREPARE TRANSACTION, then COMMIT PREPARED or ROLLBACK PREPARED. See Participant."""

    def __init__(self, connection: Connection, engine: Engine, ledger: Ledger, generation: int) -> None:
        """`connection`: the writer's, which stays open at `close`; `generation`: the writer's."""
        self._connection, self._engine, self._ledger, self._generation = connection, engine, ledger, generation
        self._block = TransactionBlock(connection)
        self._open: Gid | None = None
        #: prepared on this connection
        self._prepared: Gid | None = None

    def begin(self, work: Work) -> None:
        self._block.begin()
        self._open = work.gid

    def pre_commit(self) -> None:
        """PREPARE TRANSACTION. If the connection is lost, the outcome is unknown: the next start settles it."""
        assert self._open is not None, "begun"
        self._block.end(f"prepare transaction {literal(str(self._open))}")
        self._open, self._prepared = None, self._open

    def commit(self, gid: Gid) -> None:
        """COMMIT PREPARED on the connection that prepared, or on a new one if that died."""
        prepared, self._prepared = self._prepared, None
        if prepared != gid or not self._ended(f"commit prepared {literal(str(gid))}"):
            self._end_prepared(gid)

    def abort(self, gid: Gid) -> bool:
        """ROLLBACK of this process's transaction on its connection; else ROLLBACK PREPARED on a new connection."""
        begun, self._open, self._prepared = self._open, None, None
        if begun is not None:
            self._block.undo()
            return True
        with translated(f"ROLLBACK PREPARED {gid}"), self._engine.connect() as connection:
            try:
                connection.rollback_prepared(str(gid), recover=True)
            except (DBAPIError, psycopg2.Error) as error:
                connection.rollback()
                if sqlstate(error) != UNDEFINED_OBJECT:
                    raise
                return False
        return True

    def handles(self) -> list[Gid]:
        """Gids of this lane's prepared transactions."""
        with translated("looking for prepared transactions"):
            found = [gid for row in prepared(self._connection) if (gid := Gid.parse(row.gid))]
            self._connection.rollback()
        return [gid for gid in found if gid.belongs_to(self._ledger.lane)]

    def close(self) -> None:
        self._open = self._prepared = None

    def _ended(self, statement: str) -> bool:
        if self._connection.invalidated:
            return False
        try:
            self._block.alone(statement)
        except (DBAPIError, psycopg2.Error) as error:
            self._connection.invalidate(error)  # the writer is opened again on another connection
            return False
        return True

    def _end_prepared(self, gid: Gid) -> None:
        """COMMIT PREPARED on a new connection; raises Diverged for an unknown gid whose epoch the ledger lacks.

        The server answers 42704 both after a commit and after a rollback: only the ledger row shows which it was.
        """
        with translated(f"COMMIT PREPARED {gid}"), self._engine.connect() as connection:
            try:
                connection.commit_prepared(str(gid), recover=True)
            except (DBAPIError, psycopg2.Error) as error:
                connection.rollback()
                if sqlstate(error) != UNDEFINED_OBJECT:
                    raise
                if self._ledger.find(connection, gid.generation, gid.epoch) is None:
                    # a newer writer rolled it back before it was decided
                    self._ledger.check_newest(connection, self._generation)
                    raise lost(gid) from error


class OneCommitTarget:
    """One-phase: data and ledger row in one COMMIT, which is pre-commit and commit. See Participant."""

    def __init__(self, connection: Connection) -> None:
        self._block = TransactionBlock(connection)

    def begin(self, work: Work) -> None:
        """BEGIN; a one-phase transaction needs no name."""
        self._block.begin()

    def pre_commit(self) -> None:
        """COMMIT: the decision. If the connection is lost, the next start sees the outcome in the ledger."""
        self._block.end("commit")

    def commit(self, gid: Gid) -> None:
        """Do nothing: COMMIT is done."""

    def abort(self, gid: Gid) -> bool:
        self._block.undo()
        return True

    def handles(self) -> list[Gid]:
        return []

    def close(self) -> None:
        """Do nothing: the writer closes its connection."""


def lost(gid: Gid) -> Diverged:
    """The error for a decided epoch whose prepared transaction is gone."""
    return Diverged.target_behind(
        f"lane {gid.lane}: epoch {gid.epoch} was decided to commit, but its prepared transaction {gid} is gone and the "
        "ledger has no row for it: another program rolled it back, or the database is an older copy",
        lane=gid.lane,
        position="the ledger's end",
        gid=gid,
    )
