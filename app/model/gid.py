"""Name of a prepared transaction. It identifies the owner, so that a lane never ends a foreign transaction."""

import re
from dataclasses import dataclass
from typing import Self

PREFIX = "surelane"
LANE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
#: a number as `str` writes it: a gid with another spelling is foreign
_NUMBER = r"(?:0|[1-9][0-9]*)"
#: a query of a lane is the lane `<lane>.<query>`; a partition of one is `<lane>.<number>`
QUERY_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_PARTITION = re.compile(rf"\.{_NUMBER}$")
_GID = re.compile(rf"{PREFIX}:({LANE_NAME.pattern}(?:\.(?:{_NUMBER}|{QUERY_NAME.pattern}))?):({_NUMBER}):({_NUMBER})")


def configured(lane: str) -> str:
    """The configuration's lane, or its query, that a lane belongs to: with `order: partition` the lanes of a
    configuration are `<lane>.<partition>`."""
    return _PARTITION.sub("", lane)


@dataclass(frozen=True, order=True)
class Gid:
    """`surelane:<lane>:<generation>:<epoch>`; Postgres allows 199 bytes, this needs at most 150."""

    lane: str
    generation: int
    epoch: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The gid in `text`; None for a foreign transaction."""
        match = _GID.fullmatch(text)
        return cls(match[1], int(match[2]), int(match[3])) if match else None

    def belongs_to(self, lane: str) -> bool:
        """Whether this lane prepared it."""
        return self.lane == lane

    def is_of(self, lane: str) -> bool:
        """Whether a lane of this configuration prepared it: itself, or with `order: partition` one of its lanes."""
        return configured(self.lane) == lane

    def __str__(self) -> str:
        return f"{PREFIX}:{self.lane}:{self.generation}:{self.epoch}"
