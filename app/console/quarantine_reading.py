"""Skipped messages: a page of the list, one message, and what became of those that were changed together."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from app.cli.operator_access import quarantine
from app.cli.quarantine_view import entry_document, list_document, shown
from app.cli.rendering import Document
from app.config.redaction import Redaction
from app.console.parameters import PAGE_LINES, NoSuchThing, Parameters
from app.console.served_lanes import ServedLane
from app.errors import Refused
from app.quarantine.operator import DoneBy, Filter, ReleaseState
from app.quarantine.quarantine import OPEN


def quarantined(lane: ServedLane, asked: Parameters) -> Document:
    """The document of `surelane quarantine list`, a page of it."""
    filters, limit, before = asked.quarantine_filter(), asked.limit, asked.number("before")
    redaction = Redaction(lane.settings.guard.redact)
    with quarantine(lane.settings, engine=lane.engine) as (connection, operator):
        rows = operator.find(
            connection, filters, limit + 1, before=before, with_values=bool(lane.settings.guard.redact)
        )
        total = operator.count(connection, filters)
        may_change = operator.count(connection, open_ones) if (open_ones := open_only(filters)) is not None else 0
    document = list_document(rows[:limit], total, redaction)
    older = document["entries"][-1]["id"] if len(rows) > limit else None
    return document | {"older": older, "open": may_change}


def open_only(filters: Filter) -> Filter | None:
    """The filter without entries that can be neither released nor discarded; None: it has no others."""
    states = tuple(state for state in OPEN if not filters.states or state in filters.states)
    return replace(filters, states=states) if states else None


def outcome(lane: ServedLane, asked: Parameters) -> Document:
    """What has become of entries that were changed together, a page of them."""
    filters, limit, before = _changed_together(asked), asked.limit, asked.number("before")
    hides = bool(lane.settings.guard.redact)
    with quarantine(lane.settings, engine=lane.engine) as (connection, operator):
        counted = operator.outcomes(connection, filters)
        rows = operator.find(connection, filters, limit + 1, before=before, with_values=hides)
    states: dict[str, int] = {}
    for state, _, count in counted:
        states[state] = states.get(state, 0) + count
    still_open = [(release, count) for state, release, count in counted if state in OPEN]
    return {
        "states": states,
        "waiting": sum(count for release, count in still_open if release is ReleaseState.REQUESTED),
        "refused": sum(count for release, count in still_open if release is ReleaseState.REFUSED),
        "total": sum(states.values()),
        "entries": list_document(rows[:limit], 0, Redaction(lane.settings.guard.redact))["entries"],
        "older": rows[limit - 1].id if len(rows) > limit else None,
    }


def _changed_together(asked: Parameters) -> Filter:
    """By their numbers, or by who did it and the events of that."""
    who, events = asked.text("who"), asked.span("events")
    if who is not None and events is not None:
        return Filter(done=DoneBy(who=who, first=events[0], last=events[1]))
    ids = asked.numbers("ids") if asked.has("ids") else ()
    if not ids:
        raise NoSuchThing("an outcome's address has the numbers of its entries, ids=1-50,60, or who=...&events=7-90")
    return Filter(ids=ids)


def outcome_query(lane: ServedLane, who: str, reason: str) -> Callable[[], str]:
    """Called before many entries are changed; what it returns makes the query string of the outcome afterwards."""
    with quarantine(lane.settings, engine=lane.engine) as (connection, operator):
        before = operator.last_event(connection)

    def query() -> str:
        with quarantine(lane.settings, engine=lane.engine) as (connection, operator):
            done = operator.done_since(connection, who, reason, before)
        return "" if done is None else urlencode({"who": done.who, "events": f"{done.first}-{done.last}"})

    return query


def quarantine_entry(lane: ServedLane, asked: Parameters) -> Document:
    """The document of `surelane quarantine show`, with what is parked behind the message."""
    number = asked.number("id")
    if number is None:
        raise NoSuchThing("an entry's address is its number")
    redaction = Redaction(lane.settings.guard.redact)
    with quarantine(lane.settings, engine=lane.engine) as (connection, operator):
        try:
            row = operator.get(connection, number)
        except Refused as error:
            raise NoSuchThing(error.message) from None
        document = entry_document(row, operator.history(connection, number), redaction)
        behind = list_document(
            operator.behind(connection, row, PAGE_LINES), operator.count_behind(connection, row), redaction
        )
    return document | {"behind": behind["entries"], "behind_total": behind["total"]}


def readable(entry: Document) -> Mapping[str, Any]:
    """Key, value and headers of an entry as texts that a page shows."""
    return {
        "key": shown(entry["key"]),
        "value": shown(entry["value"]),
        "headers": [(name, shown(value)) for name, value in entry["headers"]],
    }
