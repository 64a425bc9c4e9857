"""Compares the messages of a replay's range that the lane skipped with those that the replay skipped.

A replay decides again, by the same rules: a message that could not be applied then may be applied now, or the other way
round. Where the two differ, the tables may differ, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from app.model.offsets import Span
from app.quarantine.quarantine import Quarantine, Skip


@dataclass(frozen=True, kw_only=True)
class ReplaySkips:
    """Skipped messages of one range."""

    #: by the lane: entries of the target's quarantine
    there: tuple[Skip, ...]
    #: by the replay
    here: tuple[Skip, ...]

    @property
    def only_there(self) -> list[Skip]:
        """Messages that the replay applied and the lane skipped; the lane may have applied them later (release)."""
        known = {one.position for one in self.here}
        return [one for one in self.there if one.position not in known]

    @property
    def only_here(self) -> list[Skip]:
        """Messages that the lane applied and the replay skipped."""
        known = {one.position for one in self.there}
        return [one for one in self.here if one.position not in known]

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        named = {"only_by_lane": self.only_there, "only_by_replay": self.only_here}
        counts = {"by_lane": len(self.there), "by_replay": len(self.here)}
        return counts | {name: [_plain(one) for one in some] for name, some in named.items()}


def within(connection: Connection, schema: str, lanes: Sequence[str], span: Span) -> list[Skip]:
    """Quarantine entries of these lanes within the span, ordered by position."""
    found = [one for lane in lanes for one in Quarantine(schema, lane).skips(connection)]
    return sorted((one for one in found if span.has(one.position)), key=lambda one: one.position)


def _plain(one: Skip) -> dict[str, Any]:
    return {**one.position._asdict(), "table": one.table, "state": one.state.value}
