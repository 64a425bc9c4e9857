"""Applies an epoch under guard: whole while nothing is suspected; else in parts, each in a subtransaction.

A part that the target refuses is split until one message is refused. That one is tried again, and left out when it is
condemned, with the later changes of its key if they are to follow it; everything else is applied in its place.

Deferred constraints are checked at the epoch's end: a source transaction may satisfy them later in the epoch. Where
they fail, the changes are undone and searched for the culprit (`app.lane.deferred_constraint_search`), which is tried
and condemned like any other message; then the rest is applied once more, once for each culprit.
"""

from dataclasses import dataclass, field, replace

from app.apply.applier import Applied
from app.apply.constraints import Deferred, settle_constraints
from app.apply.order_plan import OrderPlan
from app.db.sqlstate import unless_refused
from app.lane.deferred_constraint_search import DeferredConstraintSearch
from app.lane.guarded_apply import GuardedApply
from app.model.counts import Counts
from app.model.offsets import Span
from app.poison.attempts import AttemptStage, Suspect
from app.poison.guard import Failure
from app.poison.narrowing import single
from app.poison.row_parts import Rows, cut_rows, keep_together, split_rows
from app.poison.try_until_condemned import try_until_condemned


@dataclass
class EpochApplication:
    """Applies one epoch, inside its transaction."""

    sending: GuardedApply
    #: the epoch's span, however much of it could be read
    span: Span
    _counts: Counts = field(default_factory=Counts)
    #: first ordinal that was sent since deferred constraints held for the last time
    _unsettled: int = 0

    def run(self) -> Applied:
        """Apply the epoch without skipped messages; raises errors of the target that are no message's fault."""
        applied = self._run()
        skipped = int(self.sending.skips.left_out.sum())
        return replace(applied, counts=applied.counts + Counts(consumed=skipped, quarantined=skipped))

    def _run(self) -> Applied:
        sending, everything = self.sending, (0, len(self.sending.epoch))
        suspects = sending.guard.spans(AttemptStage.APPLY)
        if suspects and len(sending.epoch):
            return self._in_parts(cut_rows(sending.epoch.rows, suspects))
        sending.guard.cover(sending.number, self.span, AttemptStage.APPLY)
        whole = sending.attempt(everything, is_part=False)
        return whole if isinstance(whole, Applied) else self._in_parts(self._split(everything))

    def _in_parts(self, parts: list[Rows]) -> Applied:
        deferred, first, end = Deferred.read(self.sending.connection), 0, len(self.sending.epoch)
        while not self._settles(parts, first, deferred):
            search = DeferredConstraintSearch(self.sending, deferred)
            first, culprit, suspect = search.run((first, end))
            self._counts += search.counts
            if suspect is not None:
                self.sending.skips.condemn(culprit, suspect)
        return Applied(counts=self._counts, plan=OrderPlan.NARROWED)

    def _settles(self, parts: list[Rows], first: int, deferred: Deferred) -> bool:
        """Apply the parts from ordinal `first` on; return false, with all undone, if deferred constraints fail."""
        counts, end = self._counts, len(self.sending.epoch)
        self._unsettled = first

        def apply() -> None:
            with self.sending.connection.begin_nested():
                for begin, last in parts:
                    if last > first:
                        self._part((max(begin, first), last), deferred)
                if self.sending.first_applied(self._unsettled, end) < end:
                    self.sending.begin((self._unsettled, end))
                settle_constraints(self.sending.connection)

        if unless_refused(apply) is None:
            return True
        self._counts = counts
        return False

    def _part(self, rows: Rows, deferred: Deferred) -> None:
        if self.sending.first_applied(*rows) == rows[1]:
            return
        if rows[1] - rows[0] == 1:
            self._one(rows[0], deferred)
            return
        self.sending.begin(rows)
        result = self.sending.attempt(rows)
        if isinstance(result, Applied):
            self._applied(result, rows[1], deferred)
            return
        for part in self._split(rows):
            self._part(part, deferred)

    def _split(self, rows: Rows) -> list[Rows]:
        return keep_together(split_rows(rows), self.sending.epoch.key_changes)

    def _one(self, ordinal: int, deferred: Deferred) -> None:
        sending, span = self.sending, single(self.sending.epoch.position(ordinal))

        def attempt(_: Suspect | None) -> Applied | Suspect:
            result = sending.attempt((ordinal, ordinal + 1))
            if isinstance(result, Applied):
                return result
            sending.check_order(ordinal, result)
            return sending.guard.failed(span, AttemptStage.APPLY, Failure.of(result))

        result = try_until_condemned(sending.guard, sending.number, span, AttemptStage.APPLY, attempt, sending.control)
        if isinstance(result, Suspect):
            sending.skips.condemn(ordinal, result)
        else:
            self._applied(result, ordinal + 1, deferred)

    def _applied(self, result: Applied, end: int, deferred: Deferred) -> None:
        """Count, and check deferred constraints now: only so that the guard has the span if one of them kills."""
        self._counts += result.counts
        if self.sending.violation((self._unsettled, end), deferred) is None:
            self._unsettled = end
