"""A target whose roles and database end whatever takes longer than half a second, as those of a web application do; and
one that ends sessions at COMMIT."""

from collections.abc import Sequence

from tests.fix_target import LOGIN, OWNER, Target
from tools.devstack.postgres import SUPERUSER

#: milliseconds, by setting
HOSTILE = {
    "statement_timeout": 500,
    "lock_timeout": 300,
    "idle_in_transaction_session_timeout": 400,
    "idle_session_timeout": 400,
    "transaction_timeout": 600,
}


def make_hostile(target: Target, roles: tuple[str, ...] = (LOGIN, OWNER)) -> dict[str, int]:
    """Set those that the server has; gives them. The superuser, who asks and holds locks, has none."""
    known = {row.name for row in target.execute("select name from pg_settings")}
    settings = {name: milliseconds for name, milliseconds in HOSTILE.items() if name in known}
    for name, milliseconds in settings.items():
        target.execute(f'alter role {SUPERUSER} in database "{target.database}" set {name} = 0')
        target.execute(f'alter database "{target.database}" set {name} = {milliseconds}')
        for role in roles:
            target.execute(f'alter role {role} in database "{target.database}" set {name} = {milliseconds}')
    return settings


#: a sequence keeps its value when the transaction is rolled back
_ONCE = "if nextval(('once_' || {kind})::regclass) = 1 then perform pg_terminate_backend(pg_backend_pid()); end if;"


def at_commit(target: Target, event: str, statements: str, when: str = "true") -> None:
    """Execute PL/pgSQL in the COMMIT of each `event` (`insert on surelane.generation`), as a superuser and without a
    limit for locks. `when`: SQL over the row, `new`. The trigger is named `at_commit`."""
    target.execute(f"""
        create function at_commit() returns trigger language plpgsql security definer set lock_timeout = 0
            as $$begin {statements} return null; end$$;
        create constraint trigger at_commit after {event} deferrable initially deferred
            for each row when ({when}) execute function at_commit()
    """)


def fail_first_commits(target: Target, table: str, kind: str = "'row'", kinds: Sequence[str] = ("row",)) -> None:
    """End the session at the first COMMIT of a row of each kind. `kind`: SQL that gives it, of `new`."""
    for one in kinds:
        target.execute(f"create sequence once_{one}")
    at_commit(target, f"insert or update on {table}", _ONCE.format(kind=kind))


def has_failed(target: Target, kind: str = "row") -> bool:
    """Whether a COMMIT of this kind has failed, and another one came."""
    return target.execute(f"select last_value from once_{kind}")[0].last_value > 1
