"""One change as a transform sees it.

from app.transform import Change

def transform(change: Change) -> Change | None:
    if change.table == "customers" and not change.is_delete:
        change.row["email"] = (change.row["email"] or "").lower()
    return None if change.table == "drafts" else change
"""

from dataclasses import dataclass


@dataclass
class Change:
    """A row change. A transform may alter and return it, return another one, or None to leave the change out."""

    topic: str
    partition: int
    offset: int
    #: the source's schema and table; routes use what the transform leaves here
    schema: str
    table: str
    #: whether the row was deleted; `row` is its key then
    is_delete: bool
    #: column -> value in text form as the message has it (Debezium's encodings), None for NULL
    row: dict[str, str | None]
    #: source commit, milliseconds since 1970
    ts_ms: int | None
