"""The Connect schema in a message with envelope: the fields of its row or of its key."""

import json
from collections.abc import Mapping
from typing import Any

from app.model.row_layout import Layout, RowKind

Fields = Mapping[str, Mapping[str, Any]]


def fields_of(key: bytes | None, value: bytes | None, layout: Layout) -> Fields:
    """Connect schema of each column of `layout`; empty for a message without envelope."""
    if layout.kind is RowKind.DELETE and key is not None:
        return _named(_schema(key))
    wanted = "before" if layout.kind is RowKind.DELETE else "after"
    envelope = _named(_schema(value or b"null"))
    return _named(envelope.get(wanted, {}))


def _schema(message: bytes) -> Mapping[str, Any]:
    parsed = json.loads(message)
    return parsed.get("schema") or {} if isinstance(parsed, dict) else {}


def _named(schema: Mapping[str, Any]) -> Fields:
    return {field["field"]: field for field in schema.get("fields", ())}
