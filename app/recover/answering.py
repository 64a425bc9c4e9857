"""Answering a prepared transaction by hand.

Promise: every answer is on record, and every answer that is recorded as done was given. COMMIT PREPARED cannot share a
transaction with anything, so the order is

    1. lock       take the lane's lock: no lane runs, none starts unnoticed, no second operator answers
    2. look       read the evidence under the lock, and derive the verdict
    3. refuse     unless the answer agrees with the verdict, or is forced with a reason
    4. intend     commit the answer's row
    5. answer     COMMIT PREPARED or ROLLBACK PREPARED
    6. end        record the outcome in the row

A death between 4 and 6 leaves a row that is `intended`. The next answer to that gid checks whether the gid is still
prepared: if so, it marks the row failed and inserts another one, else it ends the row by the transaction's outcome.
"""

from dataclasses import dataclass
from typing import Any

import psycopg2
from sqlalchemy import Connection, Row
from sqlalchemy.exc import DBAPIError

from app.db.locks import lock_holder, try_lock
from app.db.prepared import end, full_xid, xact_status
from app.db.sqlstate import UNDEFINED_OBJECT, describe, is_connection_loss, sqlstate
from app.errors import Refused, Unreachable
from app.ledger.store import Ledger
from app.model.gid import Gid
from app.recover.answers import AnswerState
from app.recover.in_doubt_overview import InDoubt, Observer
from app.recover.verdict import PAST, InDoubtVerdict, OperatorAnswer, consequence

#: only the owner or a superuser may end a prepared transaction
_INSUFFICIENT_PRIVILEGE = "42501"
_ENDED = {"committed": OperatorAnswer.COMMIT, "aborted": OperatorAnswer.ROLLBACK}


@dataclass(frozen=True, kw_only=True)
class Given:
    #: id of its row
    id: int
    gid: str
    answer: OperatorAnswer
    verdict: InDoubtVerdict
    forced: bool
    #: an earlier process gave it, and died before it recorded that
    before: bool = False
    #: what follows from an answer that the evidence does not ask for
    consequence: str | None = None


class Answering:
    """Gives answers. Every connection is in autocommit mode, and holds the lane's lock until it is closed."""

    def __init__(self, observer: Observer, *, os_user: str, host: str) -> None:
        """`os_user` and `host` go into the record; the database adds its own user."""
        self._observer, self._answers = observer, observer.answers
        self._who = {"os_user": os_user, "host": host}

    def give(
        self, connection: Connection, gid: str, answer: OperatorAnswer, *, reason: str | None, force: bool
    ) -> Given:
        """Answer one transaction; raises Refused, and leaves it as it is, where the evidence disagrees."""
        self._lock(connection, gid)
        found = self._observer.find(connection, gid, locked=True)
        if found is None:
            return self._gone(connection, gid, answer)
        forced = found.right is not answer
        if forced and not (force and reason):
            raise _refused(found, answer)
        number = self._intend(connection, found, answer, forced=forced, reason=reason)
        self._end(connection, number, gid, answer)
        return Given(
            id=number,
            gid=gid,
            answer=answer,
            verdict=found.verdict,
            forced=forced,
            consequence=consequence(answer, found.verdict) if forced else None,
        )

    def _lock(self, connection: Connection, text: str) -> None:
        gid = Gid.parse(text)
        name = gid.lane if gid else f"in doubt: {text}"  # the space keeps it apart from lanes' names
        if not try_lock(connection, name):
            holder = lock_holder(connection, name)
            runs = f"lane {gid.lane} runs" if gid else "another command answers it"
            raise Refused(
                f"{text} is in progress: {runs} (backend {holder} holds its lock). Nothing was changed",
                hint="wait: a lane that runs ends its epochs itself; if it cannot, stop it first (--force is no help)",
            )

    def _intend(
        self, connection: Connection, found: InDoubt, answer: OperatorAnswer, *, forced: bool, reason: str | None
    ) -> int:
        """Mark a row that a dead process left as failed, insert the answer's row, and return its id."""
        gid = found.prepared.gid
        left = self._answers.open(connection, gid)
        if left is not None:
            self._answers.end(connection, left.id, AnswerState.FAILED, "its process ended before it was given")
        return self._answers.intend(
            connection,
            lane=self._observer.lane,
            gid=gid,
            generation=found.gid.generation if found.gid else None,
            epoch=found.gid.epoch if found.gid else None,
            answer=answer,
            verdict=found.verdict,
            forced=forced,
            reason=reason,
            evidence=_on_record(connection, found),
            **self._who,
        )

    def _end(self, connection: Connection, number: int, gid: str, answer: OperatorAnswer) -> None:
        try:
            end(connection, gid, commit=answer is OperatorAnswer.COMMIT)
        except (DBAPIError, psycopg2.Error) as error:
            if is_connection_loss(error):
                raise Unreachable(
                    f"{gid}: the connection was lost, and it is not known whether it was {PAST[answer]}",
                    hint="give the same answer once more: it finds out, and records it",
                ) from error
            if sqlstate(error) == UNDEFINED_OBJECT:
                self._gone(connection, gid, answer)
                return
            self._answers.end(connection, number, AnswerState.FAILED, describe(error))
            if sqlstate(error) == _INSUFFICIENT_PRIVILEGE:
                raise Refused(
                    f"{describe(error)}. Nothing was changed",
                    hint="use the role that prepared it (`surelane indoubt explain` names its owner), or a superuser",
                ) from error
            raise
        self._answers.end(connection, number, AnswerState.DONE, PAST[answer])

    def _gone(self, connection: Connection, gid: str, answer: OperatorAnswer) -> Given:
        """End the row of an answer whose transaction is no longer prepared, by what became of the transaction.

        Raises Refused where a dead process left no such row, or where the transaction ended otherwise.
        """
        left = self._answers.open(connection, gid)
        if left is None:
            raise Refused(
                f"{gid} is not prepared: {self._observer.fate(connection, gid)}", hint="surelane indoubt list"
            )
        ended = self._ended_how(connection, gid, left)
        if ended is None or ended.value != left.answer:
            self._answers.end(connection, left.id, AnswerState.FAILED, f"ended by another session: {_outcome(ended)}")
            raise Refused(f"{gid} is not prepared any more, and {_outcome(ended)}", hint="surelane indoubt list")
        self._answers.end(connection, left.id, AnswerState.DONE, f"found {PAST[ended]} afterwards")
        if ended is not answer:
            raise Refused(f"{gid} is {PAST[ended]} already: answer {left.id} of {left.os_user}@{left.host}")
        verdict = InDoubtVerdict(left.verdict)
        return Given(id=left.id, gid=gid, answer=answer, verdict=verdict, forced=left.forced, before=True)

    def _ended_how(self, connection: Connection, text: str, left: Row[Any]) -> OperatorAnswer | None:
        """By the ledger for a lane's transaction, by pg_xact_status for another one; None: the server forgot it."""
        gid = Gid.parse(text)
        if gid is not None:
            ledger = Ledger(self._observer.schema, gid.lane)
            there = ledger.find(connection, gid.generation, gid.epoch) is not None
            return OperatorAnswer.COMMIT if there else OperatorAnswer.ROLLBACK
        return _ENDED.get(xact_status(connection, left.evidence["xid"]) or "")


def _refused(found: InDoubt, answer: OperatorAnswer) -> Refused:
    follows = consequence(answer, found.verdict)
    return Refused(
        f"{found.prepared.gid} is not to be {PAST[answer]}: {found.why}. Nothing was changed",
        hint=f'{found.next}. With --force --reason "..." all the same: {follows}',
    )


def _on_record(connection: Connection, found: InDoubt) -> dict[str, Any]:
    row, holding = found.prepared, found.holding
    return {
        "xid": full_xid(connection, row.xid),
        "owner": row.owner,
        "prepared_at": row.prepared_at.isoformat(),
        "why": found.why,
        "tables": list(holding.tables),
        "locks": len(holding.locks),
        "blocks": [one.pid for one in holding.blocks],
        **(found.evidence.as_json() if found.evidence else {}),
    }


def _outcome(ended: OperatorAnswer | None) -> str:
    return "how is not known" if ended is None else f"was {PAST[ended]}"
