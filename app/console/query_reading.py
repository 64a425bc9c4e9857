"""Queries of the lane, as far as they are known without Spark."""

from app.cli.query_sizes import sizes_document
from app.cli.rendering import Document
from app.console.parameters import Parameters
from app.console.served_lanes import ServedLane
from app.db.sqlstate import translated


def queries(lane: ServedLane, _: Parameters) -> Document:
    """The document of `surelane state sizes`."""
    with translated("reading the state of queries"), lane.engine.connect() as connection:
        return sizes_document(connection, lane.settings)
