"""Sends rows of one epoch to the target, each time in a subtransaction; before, the guard records them."""

import time
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, text

from app.align.commit_order import ComesEarly, CommitOrder
from app.apply.applier import Applied, Applier
from app.apply.constraint_probes import ConstraintProbes
from app.apply.constraints import Deferred
from app.apply.table_plans import TablePlan
from app.db.sqlstate import unless_refused
from app.epoch.epoch_batch import EpochBatch
from app.model.activity import Activity
from app.poison.attempts import AttemptStage, Suspect
from app.poison.guard import Guard
from app.poison.row_parts import Rows, span_of
from app.quarantine.epoch_skips import EpochSkips

#: seconds that a connection has to last without the message in progress; applying one message takes milliseconds
CONTROL_SECONDS = 2.0
_WAIT = text("select pg_sleep(0.1)")


@dataclass(frozen=True)
class GuardedApply:
    """Sends the messages of one epoch that are not skipped, inside the transaction of `connection`."""

    connection: Connection
    applier: Applier
    guard: Guard
    number: int
    epoch: EpochBatch
    shapes: dict[int, TablePlan]
    skips: EpochSkips
    #: the commit order between topics; None: unread messages of other topics do not matter
    order: CommitOrder | None = None

    def begin(self, rows: Rows) -> None:
        """Have the guard record that these rows, at least one of them to be applied, are in progress."""
        self.guard.begin(self.number, span_of(self.skips.rest(*rows).rows), AttemptStage.APPLY)

    def control(self, suspect: Suspect) -> Suspect:
        """Wait on the same connection without the message: if the connection is lost or the process killed meanwhile,
        the guard finds that the control failed when the lane opens again."""
        self.guard.begin(self.number, suspect.span, AttemptStage.CONTROL)
        self.guard.doing(Activity.SERVER)
        end = time.monotonic() + CONTROL_SECONDS
        while time.monotonic() < end:
            self.connection.execute(_WAIT)
        return self.guard.control_passed(suspect)

    def attempt(self, rows: Rows, *, is_part: bool = True) -> Applied | Exception:
        """Apply the rows. Returns the target's error, with all undone, when a message may be its cause."""

        def send() -> Applied:
            with self.connection.begin_nested():
                return self.applier.apply(self.connection, self.skips.rest(*rows), self.shapes, is_part=is_part)

        return unless_refused(send)

    def keep_versions(self) -> None:
        """The versions of what was applied in parts."""
        self.applier.keep_versions(self.connection, self.skips.rest(0, len(self.epoch)), self.shapes)

    def check_order(self, ordinal: int, error: Exception) -> None:
        """Raises ComesEarly where this message, which was refused, may depend on one that is still unread."""
        if self.order is not None and self.order.is_early(self.epoch, ordinal, error):
            raise ComesEarly(self.epoch.position(ordinal))

    def violation(self, unsettled: Rows, deferred: Deferred) -> Exception | None:
        """The violation of deferred constraints, if any; `unsettled`: the rows that were sent since they last held."""
        if not deferred.names:
            return None
        self.begin(unsettled)
        return deferred.violation(self.connection)

    def marks(self, deferred: Deferred) -> ConstraintProbes:
        """Probes; make them in a subtransaction that is undone."""
        return ConstraintProbes(self.connection, self.applier.schema, self.applier.lane, deferred)

    def first_applied(self, first: int, end: int) -> int:
        """The first ordinal of these that is to be applied; `end` if none is."""
        found = np.flatnonzero(~self.skips.left_out[first:end])
        return first + int(found[0]) if len(found) else end
