"""Checks the target's deferred constraints before the transaction ends."""

from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, text

from app.db.sql import quoted, run
from app.db.sqlstate import unless_refused

#: checks deferred constraints, and from here on every constraint at its statement
SETTLE = "set constraints all immediate"
#: by name, since SET CONSTRAINTS takes names; `sure`: every constraint of that name is initially deferred
_WAITING = text("""
    select n.nspname as schema, c.conname as name, bool_and(c.condeferred) as sure
    from pg_constraint c join pg_namespace n on n.oid = c.connamespace
    where has_schema_privilege(n.oid, 'usage')
    group by 1, 2 having bool_or(c.condeferred) order by 1, 2
""")


@dataclass(frozen=True)
class Deferred:
    """The constraints that are initially deferred: the transaction's end checks them."""

    names: tuple[str, ...]
    #: whether SET CONSTRAINTS can defer them again once they were checked
    sure: bool

    @classmethod
    def read(cls, connection: Connection) -> "Deferred":
        rows = connection.execute(_WAITING).all()
        return cls(tuple(f"{quoted(row.schema)}.{quoted(row.name)}" for row in rows), all(row.sure for row in rows))

    def check(self, connection: Connection) -> None:
        """Check them for everything so far, and defer them again; raises their error.

        What has passed is not checked again, unless a name belongs to deferred and to other constraints.
        """
        if not self.names:
            return
        with connection.begin_nested() as inside:
            settle_constraints(connection)
            if self.sure:
                run(connection, f"set constraints {', '.join(self.names)} deferred")
            else:
                inside.rollback()  # defers them again, with what they have to check

    def violation(self, connection: Connection) -> Exception | None:
        """As `check`, but returns the error when a message may be its cause."""
        return unless_refused(partial(self.check, connection))


def settle_constraints(connection: Connection) -> None:
    """Execute SETTLE."""
    run(connection, SETTLE)
