"""A target whose roles and database end whatever takes longer than half a second, as those of a web application do."""

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
