"""The checks of `surelane doctor`."""

from app.cli.doctor import examine, findings_document
from app.cli.rendering import Document
from app.console.parameters import Parameters
from app.console.served_lanes import ServedLane


def doctor(lane: ServedLane, _: Parameters) -> Document:
    """The document of `surelane doctor`; the checkpoint's folder is not tried with a file."""
    return findings_document(lane.name, examine(lane.settings, only_looks=True))


def doctor_not_yet(lane: ServedLane, _: Parameters) -> Document:
    """The same before anything is checked."""
    return findings_document(lane.name, [])
