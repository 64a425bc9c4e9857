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
    INTENDED = "intended"  #: about to be given; a row that stays so belongs to a process that died
    DONE = "done"
    FAILED = "failed"  #: not given; `outcome` has the reason


class Answers:
    """The table `indoubt_answer`. Methods run in the caller's transaction, in autocommit mode in one each."""

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
        """Insert an intended answer; returns its id."""
        statement = insert(self._table).values(values).returning(self._table.c.id)
        return connection.execute(statement).scalar_one()

    def end(self, connection: Connection, answer: int, state: AnswerState, outcome: str) -> None:
        """Record the outcome."""
        values = {"state": state, "outcome": outcome, "ended_at": func.clock_timestamp()}
        connection.execute(update(self._table).where(self._table.c.id == answer).values(values))

    def unfinished(self, connection: Connection) -> Sequence[Row[Any]]:
        """Answers of all lanes whose outcome is not recorded."""
        where = self._table.c.state == AnswerState.INTENDED
        return connection.execute(select(self._table).where(where).order_by(self._table.c.id)).all()

    def open(self, connection: Connection, gid: str) -> Row[Any] | None:
        """The unfinished answer to this transaction; there is at most one."""
        return next((row for row in self.unfinished(connection) if row.gid == gid), None)

    def past(self, connection: Connection, gid: str | None, limit: int) -> tuple[Sequence[Row[Any]], int]:
        """The newest `limit` answers, of all lanes or to one transaction, and how many there are in total."""
        where = [] if gid is None else [self._table.c.gid == gid]
        found = select(self._table).where(*where).order_by(self._table.c.id.desc()).limit(limit)
        total = select(func.count()).select_from(self._table).where(*where)
        return connection.execute(found).all(), connection.execute(total).scalar_one()

    def last(self, connection: Connection, gid: str) -> Row[Any] | None:
        """The newest answer that was given to this transaction."""
        where = (self._table.c.gid == gid, self._table.c.state == AnswerState.DONE)
        statement = select(self._table).where(*where).order_by(self._table.c.id.desc()).limit(1)
        return connection.execute(statement).first()
