"""Entries of a quarantine, made up."""

from typing import Any

from app.errors import Verdict
from app.model.message import RawMessage
from app.model.offsets import Position
from app.quarantine.quarantine import Entry, EntryState

TOPIC = "made-up"


def entry(offset: int, **more: Any) -> Entry:
    """An entry of public.orders at the offset; `more` replaces fields of the entry or of its message."""
    message: dict[str, Any] = {
        "position": Position(TOPIC, 0, offset),
        "key": b'{"id":7}',
        "value": b'{"op":"c","after":{"id":7,"name":"x"}}',
        "headers": (),
        "timestamp_ms": 1_750_000_000_000,
    }
    of_entry: dict[str, Any] = {
        "state": EntryState.QUARANTINED,
        "schema": "public",
        "table": "orders",
        "key_text": '{"id":7}',
        "stage": "apply",
        "verdict": Verdict.POISON,
        "error_class": "BadMessage",
        "error": "value too long",
        "sqlstate": "22001",
        "attempts": 3,
    }
    message |= {name: value for name, value in more.items() if name in message}
    of_entry |= {name: value for name, value in more.items() if name not in message}
    return Entry(message=RawMessage(**message), **of_entry)


def parked(offset: int, **more: Any) -> Entry:
    """One that was never tried."""
    untried = dict.fromkeys(("stage", "verdict", "error_class", "error", "sqlstate"))
    return entry(offset, **{"state": EntryState.PARKED, "attempts": 0, **untried, **more})
