"""Savepoints as tables and text."""

from collections.abc import Iterable
from pathlib import Path

from rich.table import Table

from app.cli.rendering import facts_table, grid, printable, utc
from app.savepoint.compatibility import ItemResult
from app.savepoint.fingerprint import fingerprint
from app.savepoint.savepoint import SavedLane, Savepoint


def created_text(made: Savepoint, root: Path) -> str:
    """The written savepoint."""
    return printable(f"{made.name}: {root / made.name}\n  position {made.position}")


def listed(found: Iterable[Savepoint]) -> Table:
    """A line for each savepoint."""
    rows = [
        (one.name, one.lane, utc(one.made_at), str(one.position), one.versions.surelane, _snapshot(one))
        for one in found
    ]
    return grid(("name", "lane", "made", "position", "surelane", "snapshot"), rows)


def facts(one: Savepoint) -> Table:
    """The facts of a savepoint."""
    return facts_table(
        {
            "name": one.name,
            "made": utc(one.made_at),
            "position": str(one.position),
            "lanes": "\n".join(map(_lane, one.lanes)),
            "cluster": one.cluster_id or "not pinned",
            "topics": ", ".join(f"{name} ({topic_id})" for name, topic_id in one.topics.items()) or "none",
            "quarantine": "\n".join(map(_quarantine, one.lanes)),
            "snapshot": _snapshot(one),
            "state": ", ".join(one.state) or "none",
            "versions": ", ".join(f"{name} {value}" for name, value in vars(one.versions).items()),
            "configuration": fingerprint(one.items),
        }
    )


def checked(results: Iterable[ItemResult]) -> Table:
    """A line for each item."""
    return grid(("item", "result", "why"), [(one.item, one.compatibility.value, one.why) for one in results])


def _lane(one: SavedLane) -> str:
    at = one.position
    read = "" if at.read == at.applied else f", read to {at.read}"
    return f"lane {at.lane}: {at.applied}, generation {at.generation}, epoch {at.epoch}{read}"


def _quarantine(one: SavedLane) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in one.quarantine.items() if count) or "none"
    return f"{one.position.lane}: {counts}; {len(one.parked)} keys wait; {one.suspects} suspects"


def _snapshot(one: Savepoint) -> str:
    return "none" if one.snapshot is None else one.snapshot[0]
