"""The guard's records: the span in progress, and suspects."""

from app.cli.operator_access import guard_records
from app.cli.rendering import Document
from app.console.parameters import Parameters
from app.console.served_lanes import ServedLane


def guard(lane: ServedLane, _: Parameters) -> Document:
    """The document of `surelane guard show`."""
    return guard_records(lane.settings, engine=lane.guard_engine)
