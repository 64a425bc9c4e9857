"""Prepared transactions, with the evidence on each."""

from app.cli.indoubt_view import answers_document, list_document, transaction_document
from app.cli.operator_access import in_doubt
from app.cli.rendering import Document
from app.console.parameters import Parameters
from app.console.served_lanes import ServedLane

#: answers shown beside the transactions, and of one transaction
SHOWN_ANSWERS = 20


def transactions(lane: ServedLane, _: Parameters) -> Document:
    """The documents of `surelane indoubt list` and `surelane indoubt answers`."""
    with in_doubt(lane.settings, engine=lane.engine) as (connection, observer):
        found = observer.overview(connection)
        past, total = observer.answers.past(connection, None, SHOWN_ANSWERS)
    document = list_document(lane.name, found, lane.settings.guard.redact)
    return document | {"answers": answers_document(lane.name, past, total)["answers"], "answers_total": total}


def transaction(lane: ServedLane, asked: Parameters) -> Document:
    """The document of `surelane indoubt explain`, or what became of the transaction, and the answers to it."""
    gid = asked.text("gid") or ""
    with in_doubt(lane.settings, engine=lane.engine) as (connection, observer):
        found = observer.find(connection, gid)
        past, _ = observer.answers.past(connection, gid, SHOWN_ANSWERS)
        fate = observer.fate(connection, gid) if found is None else None
    return {
        "gid": gid,
        "prepared": None if found is None else transaction_document(found, lane.settings.guard.redact),
        "fate": fate,
        "answers": answers_document(lane.name, past, len(past))["answers"],
    }
