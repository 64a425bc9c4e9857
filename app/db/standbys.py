"""The target's streaming standbys, as pg_stat_replication shows them.

Only those that stream from this server: those behind another standby, and Aurora's replicas, are not in it. What only
receives (pg_receivewal, pg_basebackup) replays nothing, and a logical subscriber has a position of its own: neither is
a standby.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, text

from app.errors import TargetMismatch

_VERSION = text("select current_setting('server_version_num')::int")
_MAY_READ = text("select current_user, pg_has_role(current_user, 'pg_read_all_stats', 'usage')")
_NOW = text("select pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint")
_STANDBYS = text("""
    select coalesce(nullif(application_name, ''), 'standby') || coalesce(' at ' || host(client_addr), '') as name,
        pg_wal_lsn_diff(replay_lsn, '0/0')::bigint as replayed, extract(epoch from replay_lag)::float8 as replay_seconds
    from pg_stat_replication r
    where replay_lsn is not null
      and not exists (select from pg_replication_slots s where s.active_pid = r.pid and s.slot_type = 'logical')
    order by 1
""")
#: role memberships have an INHERIT option of their own since then
_INHERIT_MAJOR = 160_000


@dataclass(frozen=True, kw_only=True)
class Standby:
    """One row of pg_stat_replication."""

    name: str
    #: position in the WAL, bytes
    replayed: int
    #: replay_lag; it stays as it was while the standby replays nothing. None: it has replayed everything, or the server
    #: has not measured it
    replay_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Replication:
    """What is written, and how far each standby is."""

    #: position in the WAL, bytes
    written: int
    standbys: tuple[Standby, ...]


def replication(connection: Connection) -> Replication:
    """Read both. Raises TargetMismatch for a role that may not see standbys: it would see none that is behind."""
    role, may_read = connection.execute(_MAY_READ).one()
    if not may_read:
        raise TargetMismatch(
            f"limits.target_replica_lag: role {role} may not see how far the target's standbys are",
            hint=_grant(role, connection.execute(_VERSION).scalar_one()),
        )
    standbys = tuple(
        Standby(name=row.name, replayed=row.replayed, replay_seconds=row.replay_seconds)
        for row in connection.execute(_STANDBYS)
    )
    # behind the standbys: they replay nothing that is not written
    return Replication(written=connection.execute(_NOW).scalar_one(), standbys=standbys)


def _grant(role: str, version: int) -> str:
    if version >= _INHERIT_MAJOR:
        return f'GRANT pg_read_all_stats TO "{role}" WITH INHERIT TRUE;'
    return f'GRANT pg_read_all_stats TO "{role}"; ALTER ROLE "{role}" INHERIT;'
