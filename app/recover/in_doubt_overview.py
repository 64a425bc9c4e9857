"""Prepared transactions for an operator: the locks of each, the sessions it blocks, the verdict.

Reads only, and needs no JVM: it works while the lane is down.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from app.db.lock_inspection import PreparedLocks, holdings
from app.db.prepared import Prepared, prepared, slots
from app.ledger.store import Ledger
from app.model.gid import Gid
from app.recover.answers import Answers
from app.recover.in_doubt_evidence import EvidenceSource, InDoubtEvidence, evidence
from app.recover.verdict import PAST, RIGHT, InDoubtVerdict, OperatorAnswer, foreign, judge, what_next, why


@dataclass(frozen=True, kw_only=True)
class InDoubt:
    """One prepared transaction of the database."""

    prepared: Prepared
    #: None: another program's
    gid: Gid | None
    holding: PreparedLocks
    #: None: it belongs to no lane of this configuration
    evidence: InDoubtEvidence | None
    verdict: InDoubtVerdict
    why: str
    next: str

    @property
    def right(self) -> OperatorAnswer | None:
        """The answer that the evidence asks for; None: it asks for none."""
        return RIGHT.get(self.verdict)


@dataclass(frozen=True, kw_only=True)
class InDoubtOverview:
    """All prepared transactions of the database."""

    transactions: Sequence[InDoubt]
    #: prepared transactions of the whole server, and its limit
    used: int
    limit: int
    #: answers whose process died before it recorded the outcome
    unfinished: Sequence[Row[Any]]


class Observer:
    """Reads the prepared transactions of a database, for `lane`; `several`: its lanes are `<lane>.<partition>`."""

    def __init__(self, schema: str, lane: str, source: EvidenceSource, *, several: bool) -> None:
        self.schema, self.lane, self._source, self._several = schema, lane, source, several
        self.answers = Answers(schema)

    def overview(self, connection: Connection) -> InDoubtOverview:
        """All prepared transactions, the oldest first."""
        holding = holdings(connection, self.schema)
        found = [self.look(connection, one, holding.get(one.xid, PreparedLocks())) for one in prepared(connection)]
        used, limit = slots(connection)
        return InDoubtOverview(
            transactions=found, used=used, limit=limit, unfinished=self.answers.unfinished(connection)
        )

    def find(self, connection: Connection, gid: str, *, locked: bool = False) -> InDoubt | None:
        """The transaction `gid`; None: it is not prepared. `locked`: this session holds its lane's lock."""
        row = next((one for one in prepared(connection) if one.gid == gid), None)
        if row is None:
            return None
        return self.look(
            connection, row, holdings(connection, self.schema).get(row.xid, PreparedLocks()), locked=locked
        )

    def look(self, connection: Connection, row: Prepared, holding: PreparedLocks, *, locked: bool = False) -> InDoubt:
        """The evidence on a transaction, and the verdict."""
        gid = Gid.parse(row.gid)
        if gid is None or not self.is_mine(gid):
            return _found(row, gid, holding, None, InDoubtVerdict.FOREIGN, foreign(gid))
        seen = evidence(connection, Ledger(self.schema, gid.lane), gid, self._source, mine=locked)
        verdict = judge(gid, seen)
        return _found(row, gid, holding, seen, verdict, why(gid, seen, verdict))

    def fate(self, connection: Connection, text: str) -> str:
        """What became of a transaction that is not prepared, in words, as far as it is known."""
        gid, given = Gid.parse(text), self.answers.last(connection, text)
        by = f" (answer {given.id}, by {given.os_user}@{given.host})" if given else ""
        if gid is None:
            no_answer = "it is none of Surelane's, and no answer is recorded"
            return f"{PAST[OperatorAnswer(given.answer)]}{by}" if given else no_answer
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
    row: Prepared,
    gid: Gid | None,
    holding: PreparedLocks,
    seen: InDoubtEvidence | None,
    verdict: InDoubtVerdict,
    reason: str,
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
