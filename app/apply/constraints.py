"""The target's deferred constraints: having them checked before the transaction ends."""

from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, text

from app.db.sql import quoted, run
from app.db.sqlstate import unless_refused

#: by name, since only names can be told to wait; `sure`: everything of that name waits by itself
_WAITING = text("""
    select n.nspname as schema, c.conname as name, bool_and(c.condeferred) as sure
    from pg_constraint c join pg_namespace n on n.oid = c.connamespace
    where has_schema_privilege(n.oid, 'usage')
    group by 1, 2 having bool_or(c.condeferred) order by 1, 2
""")


@dataclass(frozen=True)
class Deferred:
    """The constraints that wait for a transaction's end by themselves."""

    names: tuple[str, ...]
    #: whether they can be told to wait again once they were checked
    sure: bool

    @classmethod
    def read(cls, connection: Connection) -> "Deferred":
        """As the catalog has them."""
        rows = connection.execute(_WAITING).all()
        return cls(tuple(f"{quoted(row.schema)}.{quoted(row.name)}" for row in rows), all(row.sure for row in rows))

    def check(self, connection: Connection) -> None:
        """Raises what the constraints say of everything so far. They wait for the end as before.

        What has passed is not checked again, unless one name is that of constraints that wait and of others.
        """
        if not self.names:
            return
        with connection.begin_nested() as inside:
            settle_constraints(connection)
            if self.sure:
                run(connection, f"set constraints {', '.join(self.names)} deferred")
            else:
                inside.rollback()  # which brings back what waits, and what it has to check

    def violation(self, connection: Connection) -> Exception | None:
        """As `check`; gives the error when a message may be its cause."""
        return unless_refused(partial(self.check, connection))


def settle_constraints(connection: Connection) -> None:
    """Check deferred constraints now, and every other one at its statement from here on."""
    run(connection, "set constraints all immediate")
