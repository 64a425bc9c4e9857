"""Checks that the lane may see the standbys for which `limits.target_replica_lag` lets it wait."""

from collections.abc import Iterator

from sqlalchemy import Connection

from app.cli.doctor_checks.finding import Finding, fault, ok
from app.config.settings import Settings
from app.db.standbys import replication
from app.errors import TargetMismatch

_CHECK = "standbys"


def standbys(connection: Connection, settings: Settings) -> Iterator[Finding]:
    """Nothing without `limits.target_replica_lag`; `connection` is like the lane's."""
    limit = settings.limits.target_replica_lag
    if limit is None:
        return
    try:
        found = replication(connection)
    except TargetMismatch as error:
        yield fault(_CHECK, error.message, error.hint or "")
        return
    if not found.standbys:
        yield ok(_CHECK, "no standby streams from the target now, so the lane waits for none")
        return
    names = ", ".join(f"{one.name} ({found.written - one.replayed:,} bytes behind)" for one in found.standbys)
    yield ok(_CHECK, f"the lane waits for a standby that is more than {limit.total_seconds():g} s behind: {names}")
