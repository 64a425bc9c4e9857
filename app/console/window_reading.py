"""The windows that a query's state has."""

from app.cli.rendering import Document
from app.console.parameters import NoSuchThing, Parameters
from app.console.served_lanes import ServedLane


def windows(lane: ServedLane, asked: Parameters) -> Document:
    """The document of `surelane state windows`."""
    return lane.windows.read(_query(lane, asked), lane.file) | {"read": True}


def windows_not_yet(lane: ServedLane, asked: Parameters) -> Document:
    """The same before anything is read."""
    return {"query": _query(lane, asked), "windows": [], "more": False, "read": False}


def _query(lane: ServedLane, asked: Parameters) -> str:
    name = asked.text("query") or ""
    settings = lane.settings
    known = [*settings.queries] if settings.query is None else [settings.lane.partition(".")[2]]
    if name not in known:
        raise NoSuchThing(f"lane {lane.name} has no query {name[:100]}")
    return name
