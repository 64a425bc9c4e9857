"""Comparisons of the target with another database, as `surelane verify` has left them."""

from app.cli.rendering import Document
from app.cli.verify_view import runs_document
from app.config.redaction import Redaction
from app.console.parameters import NoSuchThing, Parameters
from app.console.served_lanes import ServedLane
from app.db.sqlstate import translated
from app.verify.verification_runs import VerificationRuns


def verifications(lane: ServedLane, _: Parameters) -> Document:
    """The document of `surelane verify --runs`."""
    with translated("reading the comparisons"), lane.engine.connect() as connection:
        return runs_document(connection, lane.schema, lane.name)


def verification(lane: ServedLane, asked: Parameters) -> Document:
    """One run: the document of `surelane verify`, with the keys that it kept."""
    number = asked.number("id")
    with translated("reading the comparisons"), lane.engine.connect() as connection:
        found = None if number is None else VerificationRuns(lane.schema, lane.name).find(connection, number)
    if found is None:
        raise NoSuchThing(f"there is no comparison {asked.text('id')} of lane {lane.name} on record")
    return found.as_json() | {"document": found.document(Redaction(lane.settings.guard.redact))}
