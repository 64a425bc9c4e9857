"""Prepared transactions as an operator sees them: what each holds, whom it blocks, what the evidence asks for.

Read only, and no JVM: it works while the lane is down, which is when somebody has to look.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from app.db.lock_inspection import Holding, holdings
from app.db.prepared import Prepared, prepared, slots
from app.ledger.store import Ledger
from app.model.gid import Gid
from app.recover.answers import Answers
from app.recover.evidence import Evidence, Source, evidence
from app.recover.verdict import PAST, RIGHT, Answer, Verdict, foreign, judge, what_next, why


@dataclass(frozen=True, kw_only=True)
class InDoubt:
    """One prepared transaction of the database."""

    prepared: Prepared
    #: None: not Surelane's
    gid: Gid | None
    holding: Holding
    #: None: of no lane of this configuration
    evidence: Evidence | None
    verdict: Verdict
    why: str
    next: str

    @property
    def right(self) -> Answer | None:
        """The answer that agrees with the evidence, None when there is none."""
        return RIGHT.get(self.verdict)


@dataclass(frozen=True, kw_only=True)
class Overview:
    """All of them."""

    transactions: Sequence[InDoubt]
    #: prepared transactions of the whole server, and how many it takes
    used: int
    limit: int
    #: answers whose process died over them
    unfinished: Sequence[Row[Any]]


class Observer:
    """Looks at the prepared transactions of a database, for `lane`; `several`: its lanes are `<lane>.<partition>`."""

    def __init__(self, schema: str, lane: str, source: Source, *, several: bool) -> None:
        self.schema, self.lane, self._source, self._several = schema, lane, source, several
        self.answers = Answers(schema)

    def overview(self, connection: Connection) -> Overview:
        """Everything, the oldest first."""
        holding = holdings(connection, self.schema)
        found = [self.look(connection, one, holding.get(one.xid, Holding())) for one in prepared(connection)]
        used, limit = slots(connection)
        return Overview(transactions=found, used=used, limit=limit, unfinished=self.answers.unfinished(connection))

    def find(self, connection: Connection, gid: str, *, locked: bool = False) -> InDoubt | None:
        """One of them; `locked`: this session holds its lane's lock."""
        row = next((one for one in prepared(connection) if one.gid == gid), None)
        if row is None:
            return None
        return self.look(connection, row, holdings(connection, self.schema).get(row.xid, Holding()), locked=locked)

    def look(self, connection: Connection, row: Prepared, holding: Holding, *, locked: bool = False) -> InDoubt:
        """What is known of it, and the verdict."""
        gid = Gid.parse(row.gid)
        if gid is None or not self.is_mine(gid):
            return _found(row, gid, holding, None, Verdict.FOREIGN, foreign(gid))
        seen = evidence(connection, Ledger(self.schema, gid.lane), gid, self._source, mine=locked)
        verdict = judge(gid, seen)
        return _found(row, gid, holding, seen, verdict, why(gid, seen, verdict))

    def fate(self, connection: Connection, text: str) -> str:
        """What became of a transaction that is not prepared, as far as anybody knows."""
        gid, given = Gid.parse(text), self.answers.last(connection, text)
        by = f" (answer {given.id}, by {given.os_user}@{given.host})" if given else ""
        if gid is None:
            return f"{PAST[Answer(given.answer)]}{by}" if given else "it is none of Surelane's, and nobody answered it"
        ledger = Ledger(self.schema, gid.lane)
        if ledger.find(connection, gid.generation, gid.epoch) is not None:
            return f"it was committed{by}, the ledger has its epoch"
        if gid.generation not in ledger.checkpoints(connection):
            return f"it never was: lane {gid.lane} has no generation {gid.generation}"
        return f"the ledger does not have its epoch: it was rolled back{by}, or never prepared"

    def is_mine(self, gid: Gid) -> bool:
        """Whether a lane of this configuration prepared it."""
        return gid.lane.startswith(f"{self.lane}.") if self._several else gid.belongs_to(self.lane)


def _found(
    row: Prepared, gid: Gid | None, holding: Holding, seen: Evidence | None, verdict: Verdict, reason: str
) -> InDoubt:
    return InDoubt(
        prepared=row,
        gid=gid,
        holding=holding,
        evidence=seen,
        verdict=verdict,
        why=reason,
        next=what_next(gid, verdict),
    )
