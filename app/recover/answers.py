"""The record of answers that operators gave to prepared transactions; the DDL, with its states, is in migrations/."""

import enum
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    DateTime,
    Identity,
    MetaData,
    Row,
    Table,
    Text,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB


class AnswerState(enum.StrEnum):
    """How far an answer has come."""

    INTENDED = "intended"  #: about to be given; found so later, its process died over it
    DONE = "done"
    FAILED = "failed"  #: not given, `outcome` says why


class Answers:
    """The table `indoubt_answer`. Each method in the caller's transaction, or one of its own in autocommit."""

    def __init__(self, schema: str) -> None:
        self._table = Table(
            "indoubt_answer",
            MetaData(schema=schema),
            Column("id", BigInteger, Identity(always=True), primary_key=True),
            *(Column(name, Text) for name in ("lane", "gid")),
            *(Column(name, BigInteger) for name in ("generation", "epoch")),
            *(Column(name, Text) for name in ("answer", "verdict")),
            Column("forced", Boolean),
            Column("reason", Text),
            Column("evidence", JSONB),
            *(Column(name, Text) for name in ("db_user", "os_user", "host", "state", "outcome")),
            *(Column(name, DateTime(timezone=True)) for name in ("at", "ended_at")),
        )

    def intend(self, connection: Connection, **values: Any) -> int:
        """Write down what is about to be done; gives the answer's number."""
        statement = insert(self._table).values(values).returning(self._table.c.id)
        return connection.execute(statement).scalar_one()

    def end(self, connection: Connection, answer: int, state: AnswerState, outcome: str) -> None:
        """Say what came of it."""
        values = {"state": state, "outcome": outcome, "ended_at": func.clock_timestamp()}
        connection.execute(update(self._table).where(self._table.c.id == answer).values(values))

    def unfinished(self, connection: Connection) -> Sequence[Row[Any]]:
        """Answers whose end nobody wrote down, of all lanes."""
        where = self._table.c.state == AnswerState.INTENDED
        return connection.execute(select(self._table).where(where).order_by(self._table.c.id)).all()

    def open(self, connection: Connection, gid: str) -> Row[Any] | None:
        """The unfinished one to this transaction, of which there is at most one."""
        return next((row for row in self.unfinished(connection) if row.gid == gid), None)

    def past(self, connection: Connection, gid: str | None, limit: int) -> tuple[Sequence[Row[Any]], int]:
        """The newest `limit`, of all lanes or to one transaction, with how many there are."""
        where = [] if gid is None else [self._table.c.gid == gid]
        found = select(self._table).where(*where).order_by(self._table.c.id.desc()).limit(limit)
        total = select(func.count()).select_from(self._table).where(*where)
        return connection.execute(found).all(), connection.execute(total).scalar_one()

    def last(self, connection: Connection, gid: str) -> Row[Any] | None:
        """The newest that was given to this transaction."""
        where = (self._table.c.gid == gid, self._table.c.state == AnswerState.DONE)
        statement = select(self._table).where(*where).order_by(self._table.c.id.desc()).limit(1)
        return connection.execute(statement).first()
