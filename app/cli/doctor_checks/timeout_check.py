"""Checks that Surelane's timeouts take the place of those that role and database set for the lane's sessions."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from app.cli.doctor_checks.finding import Finding, ok, warn
from app.db.engine import timeouts as own_timeouts

_CHECK = "timeouts"
_VERSION = text("select current_setting('server_version_num')::int")
#: the narrowest first: Postgres takes the first of several settings of one name
_SET = text("""
    select split_part(setting, '=', 1) as name, substr(setting, strpos(setting, '=') + 1) as value,
        concat_ws(' in ', case when s.setrole <> 0 then 'role ' || session_user end,
            case when s.setdatabase <> 0 then 'database ' || current_database() end) as place
    from pg_db_role_setting s cross join unnest(s.setconfig) setting
    where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
      and s.setrole in (0, (select oid from pg_roles where rolname = session_user))
      and split_part(setting, '=', 1) = any(:names)
    order by 1, s.setrole = 0, s.setdatabase = 0
""")
_DIFFERS = text("""
    select name, current_setting(name) as value from unnest(cast(:names as text[]), cast(:own as text[])) t(name, own)
    where cast(current_setting(name) as interval) <> cast(own as interval) order by name
""")


def timeouts(connection: Connection) -> Finding:
    """Compare the session's timeouts with Surelane's; `connection` is like the lane's. An ok shows the overridden ones,
    which ALTER ROLE and ALTER DATABASE set.

    A session with its own settings cannot see those of the server's configuration file.
    """
    own = own_timeouts(connection.execute(_VERSION).scalar_one())
    differing = connection.execute(_DIFFERS, {"names": list(own), "own": list(own.values())}).all()
    if differing:
        found = "; ".join(f"{row.name} is {row.value}, not {own[row.name]}" for row in differing)
        hint = (
            "what takes the settings of a session away (a pooler, a login trigger)? Else set them for the lane's role: "
            + " ".join(f"ALTER ROLE <login> SET {row.name} = '{own[row.name]}';" for row in differing)
        )
        return warn(_CHECK, f"a session of the lane does not keep its own limits of time: {found}", hint)
    return ok(_CHECK, _overridden(connection.execute(_SET, {"names": list(own)}).all(), own))


def _overridden(found: Sequence[Row[Any]], own: Mapping[str, str]) -> str:
    used = "a lane waits " + own["lock_timeout"] + " for a lock, and has no other limit of time"
    if not found:
        return f"{used}; role and database set none"
    listed = "; ".join(f"{row.name} = {row.value} ({row.place or 'all roles'})" for row in found)
    return f"{used}, whatever role and database set: {listed}"
