"""Checks of rollups: they are kept, or the lane's next start can make them."""

from sqlalchemy import Connection

from app.cli.doctor_checks.finding import Finding, failed, ok, warn
from app.config.settings import Settings
from app.errors import SurelaneError
from app.rollup import keeping


def rollups(connection: Connection, settings: Settings) -> list[Finding]:
    """Findings on the rollups of the configuration; `connection` is like the lane's."""
    if not settings.rollups:
        return []
    try:
        states, left = keeping.states(connection, settings), keeping.not_configured(connection, settings)
    except SurelaneError as error:
        return [failed("rollups", error)]
    found: list[Finding] = []
    if other := [f"{one.name} ({one.state})" for one in states if one.state != "kept"]:
        hint = f"the lane's next start makes them: {keeping.NEEDED}"
        found.append(warn("rollups", f"not kept: {', '.join(other)}", hint))
    else:
        found.append(ok("rollups", f"kept: {', '.join(one.name for one in states)}"))
    if left:
        problem = f"in the target, and not in the configuration: {', '.join(mark for _, mark in left)}"
        found.append(warn("rollups", problem, "surelane rollup drop removes their triggers"))
    return found
