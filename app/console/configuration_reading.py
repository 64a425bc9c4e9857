"""The effective configuration."""

from app.cli.config_view import config_document
from app.cli.rendering import Document
from app.console.parameters import Parameters
from app.console.served_lanes import ServedLane


def configuration(lane: ServedLane, _: Parameters) -> Document:
    """The document of `surelane config`."""
    return config_document(lane.settings, lane.file)
