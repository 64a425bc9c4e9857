"""Applying an epoch under guard: whole while nothing is suspected; else in parts, each in a subtransaction.

A part that the target refuses is split until one message is refused. That one is tried again, and left out when it is
condemned, with the later changes of its key if they are to follow it; everything else is applied in its place.
"""

from dataclasses import dataclass, field, replace

import psycopg2
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.apply.applier import Applied, Applier, settle_constraints
from app.apply.arrange import Epoch
from app.apply.plan import Plan
from app.apply.shapes import Shape
from app.db.failures import describe, verdict_of
from app.errors import BadMessage, Verdict
from app.guard.attempts import Stage
from app.guard.guard import Failure, Guard
from app.guard.narrowing import Rows, cut_rows, single, span_of, split_rows
from app.lane.skipping import Skips
from app.model.counts import Counts
from app.model.offsets import Span


@dataclass
class Application:
    """Applies one epoch, inside the transaction of `connection`."""

    connection: Connection
    applier: Applier
    guard: Guard
    number: int
    #: the epoch's own, whatever of it was read
    span: Span
    epoch: Epoch
    shapes: dict[int, Shape]
    skips: Skips
    _counts: Counts = field(default_factory=Counts)

    def run(self) -> Applied:
        """Apply it, but for what is skipped; raises what the target says that is no message's fault."""
        applied = self._run()
        parked = int(self.skips.parked.sum())
        return replace(applied, counts=applied.counts + Counts(consumed=parked, quarantined=parked))

    def _run(self) -> Applied:
        suspects = self.guard.spans(Stage.APPLY)
        if suspects and len(self.epoch):
            return self._in_parts(cut_rows(self.epoch.rows, suspects))
        self.guard.cover(self.number, self.span, Stage.APPLY)
        everything = (0, len(self.epoch))
        whole = self._attempt(everything, settle=True)
        return whole if isinstance(whole, Applied) else self._in_parts(split_rows(everything))

    def _in_parts(self, parts: list[Rows]) -> Applied:
        for part in parts:
            self._part(part)
        self._settle()
        return Applied(counts=self._counts, plan=Plan.NARROWED)

    def _part(self, rows: Rows) -> None:
        if self.skips.parked[slice(*rows)].all():
            return
        if rows[1] - rows[0] == 1:
            self._one(rows[0])
            return
        self.guard.begin(self.number, span_of(self.skips.rest(*rows).rows), Stage.APPLY)
        result = self._attempt(rows, settle=False)
        if isinstance(result, Applied):
            self._counts += result.counts
            return
        for part in split_rows(rows):
            self._part(part)

    def _one(self, ordinal: int) -> None:
        """A single message: tried until it is taken or condemned."""
        span = single(self.epoch.position(ordinal))
        suspect = self.guard.suspect(span, Stage.APPLY)
        while suspect is None or not self.guard.condemns(suspect):
            self.guard.begin(self.number, span, Stage.APPLY)
            result = self._attempt((ordinal, ordinal + 1), settle=False)
            if isinstance(result, Applied):
                self._counts += result.counts
                return
            suspect = self.guard.failed(span, Stage.APPLY, Failure.of(result))
        self.skips.condemn(ordinal, suspect)
        self._counts += Counts(consumed=1, quarantined=1)

    def _attempt(self, rows: Rows, *, settle: bool) -> Applied | Exception:
        """What came of it; the target's error when a message may be its cause. Nothing of it is left then."""
        try:
            with self.connection.begin_nested():
                return self.applier.apply(self.connection, self.skips.rest(*rows), self.shapes, settle=settle)
        except (DBAPIError, psycopg2.Error) as error:
            if verdict_of(error) is not Verdict.POISON:
                raise
            return error

    def _settle(self) -> None:
        """Deferred constraints wait for the epoch's end: a source transaction may satisfy them later in the epoch."""
        try:
            settle_constraints(self.connection)
        except (DBAPIError, psycopg2.Error) as error:
            if verdict_of(error) is not Verdict.POISON:
                raise
            words = describe(error, discreet=self.guard.discreet)
            raise BadMessage(
                f"the target refuses the epoch as a whole, though each change alone passes: {words}",
                hint="a deferred constraint that the source does not have, or an epoch that ends inside a source "
                "transaction; drop or relax the constraint at the target",
            ) from error
