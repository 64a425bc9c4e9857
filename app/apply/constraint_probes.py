"""Finds the change that a deferred constraint fails for, by marks between the changes.

Postgres checks in the order of the changes and stops at the first violation. A mark is a row that violates a constraint
of our own: when that violation is reported, and no other, everything before the mark holds.
"""

from functools import partial

import psycopg2
from sqlalchemy import Connection

from app.apply.constraints import Deferred, settle_constraints
from app.apply.staging import prefix
from app.db.sql import discarded, quoted, run
from app.db.sqlstate import driver_error, unless_refused


class ConstraintProbes:
    """Marks of one lane, in a table that no other session sees: it goes with the subtransaction that made it."""

    def __init__(self, connection: Connection, schema: str, lane: str, deferred: Deferred) -> None:
        name = f"{prefix(lane)}marks"
        self._connection, self._table = connection, f"{quoted(schema)}.{quoted(name)}"
        self._constraint = f"{name}_met"
        self._deferred = Deferred((*deferred.names, f"{quoted(schema)}.{quoted(self._constraint)}"), deferred.sure)
        run(
            connection,
            f"create unlogged table {self._table} (place bigint primary key, partner bigint, constraint "
            f"{quoted(self._constraint)} foreign key (partner) references {self._table} initially deferred)",
        )
        run(connection, f"set constraints {quoted(schema)}.{quoted(self._constraint)} deferred")

    def set(self, place: int) -> None:
        """Set a mark behind the changes so far; places ascend."""
        run(self._connection, f"insert into {self._table} values ({place}, {-place - 1})")  # noqa: S608

    def violation(self) -> Exception | None:
        """Error of the deferred constraints for everything so far, or None; what has passed, marks included, is not
        checked again."""

        def ask() -> None:
            with self._connection.begin_nested():
                self._meet("true")
                self._deferred.check(self._connection)

        return unless_refused(ask)

    def violation_before(self, place: int) -> Exception | None:
        """Error of the deferred constraints for the changes before a mark that has not passed, or None."""
        error = unless_refused(partial(self._stop_at, place))
        return None if error is None or self._is_mine(error) else error

    def _stop_at(self, place: int) -> None:
        with discarded(self._connection):
            self._meet(f"place < {place}")
            settle_constraints(self._connection)

    def _meet(self, which: str) -> None:
        """Make these marks satisfy the constraint."""
        statement = f"select partner from {self._table} where partner is not null and {which}"  # noqa: S608
        run(self._connection, f"insert into {self._table} {statement} on conflict do nothing")

    def _is_mine(self, error: Exception) -> bool:
        original = driver_error(error)
        return isinstance(original, psycopg2.Error) and original.diag.constraint_name == self._constraint
