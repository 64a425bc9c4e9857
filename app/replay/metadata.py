"""What is on record of a replay: the comment of its own schema, beside which its ledger says how far it has come."""

import json
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, text

from app.db.sql import literal, quoted, run
from app.errors import Refused
from app.model.offsets import Offsets, Span
from app.verify.pairs import REPLAY_MARK

_COMMENT = text("select obj_description(oid, 'pg_namespace') from pg_namespace where nspname = :schema")


@dataclass(frozen=True, kw_only=True)
class ReplayMetadata:
    """Which replay it is."""

    lane: str
    #: host:port/database of the lane's target
    of: str
    start: Offsets
    goal: Offsets
    #: as they were typed
    start_text: str
    goal_text: str

    @property
    def span(self) -> Span:
        """What it replays."""
        return Span(start=self.start, end=self.goal)

    def to(self, goal: Offsets, goal_text: str) -> "ReplayMetadata":
        """With another end."""
        return replace(self, goal=goal, goal_text=goal_text)


def exists(connection: Connection, schema: str) -> bool:
    """Whether there is such a schema."""
    return connection.execute(_COMMENT, {"schema": schema}).first() is not None


def is_marked(connection: Connection, schema: str) -> bool:
    """Whether it was made for a replay."""
    said = connection.execute(_COMMENT, {"schema": schema}).scalar_one_or_none()
    return bool(said and said.startswith(REPLAY_MARK))


def find(connection: Connection, own: str) -> ReplayMetadata | None:
    """None: there is no such schema. Raises Refused for one that is no replay's."""
    row = connection.execute(_COMMENT, {"schema": own}).first()
    if row is None:
        return None
    try:
        told = json.loads((row[0] or "").removeprefix(REPLAY_MARK))
        start, goal = Offsets.from_nested(told.pop("start")), Offsets.from_nested(told.pop("goal"))
        return ReplayMetadata(**told, start=start, goal=goal)
    except (ValueError, TypeError, KeyError):
        raise Refused(
            f"schema {own} is there, and is no replay's",
            hint="a replay keeps its own ledger in it: name another place with --into, or drop or rename that schema",
        ) from None


def write(connection: Connection, own: str, mark: ReplayMetadata) -> None:
    """On the schema, which is there."""
    told: dict[str, Any] = vars(mark) | {"start": mark.start.nested(), "goal": mark.goal.nested()}
    comment(connection, own, json.dumps(told))


def comment(connection: Connection, schema: str, words: str) -> None:
    """Mark a schema as one of a replay."""
    run(connection, f"comment on schema {quoted(schema)} is {literal(f'{REPLAY_MARK}{words}')}")
