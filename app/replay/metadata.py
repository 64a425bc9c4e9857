"""Metadata of a replay, in the comment of its schema. How far it has come is in its ledger."""

import json
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, text

from app.db.sql import literal, quoted, run
from app.errors import Refused
from app.model.offsets import Offsets, Span
from app.verify.pairs import OWN_MARK

#: prefix of the comment on a replay's schema
_MARK = f"{OWN_MARK}replay "
_COMMENT = text("select obj_description(oid, 'pg_namespace') from pg_namespace where nspname = :schema")


@dataclass(frozen=True, kw_only=True)
class ReplayMetadata:
    """What a replay replays."""

    lane: str
    #: host:port/database of the lane's target
    of: str
    start: Offsets
    goal: Offsets
    #: the bounds as they were typed
    start_text: str
    goal_text: str

    @property
    def span(self) -> Span:
        """The range of positions."""
        return Span(start=self.start, end=self.goal)

    def to(self, goal: Offsets, goal_text: str) -> "ReplayMetadata":
        """A copy with another end."""
        return replace(self, goal=goal, goal_text=goal_text)


def exists(connection: Connection, schema: str) -> bool:
    """Whether the schema exists."""
    return connection.execute(_COMMENT, {"schema": schema}).first() is not None


def is_marked(connection: Connection, schema: str) -> bool:
    """Whether the schema was made for a replay."""
    found = connection.execute(_COMMENT, {"schema": schema}).scalar_one_or_none()
    return bool(found and found.startswith(_MARK))


def find(connection: Connection, own: str) -> ReplayMetadata | None:
    """Metadata of the replay whose schema is `own`; None: no such schema. Raises Refused for another kind of schema."""
    row = connection.execute(_COMMENT, {"schema": own}).first()
    if row is None:
        return None
    try:
        fields = json.loads((row[0] or "").removeprefix(_MARK))
        start, goal = Offsets.from_nested(fields.pop("start")), Offsets.from_nested(fields.pop("goal"))
        return ReplayMetadata(**fields, start=start, goal=goal)
    except (ValueError, TypeError, KeyError):
        raise Refused(
            f"schema {own} is there, and is no replay's",
            hint="a replay keeps its own ledger in it: name another place with --into, or drop or rename that schema",
        ) from None


def write(connection: Connection, own: str, mark: ReplayMetadata) -> None:
    """Write the metadata to the comment of the schema `own`, which exists."""
    fields: dict[str, Any] = vars(mark) | {"start": mark.start.nested(), "goal": mark.goal.nested()}
    comment(connection, own, json.dumps(fields))


def comment(connection: Connection, schema: str, words: str) -> None:
    """Mark a schema as one of a replay."""
    run(connection, f"comment on schema {quoted(schema)} is {literal(f'{_MARK}{words}')}")
