"""Names of the archive's files: they tell lane, generation and epoch, as a gid does."""

import re
from dataclasses import dataclass
from typing import NamedTuple, Self

from app.model.gid import LANE_NAME, Gid

#: in front of what is not committed
PART = ".part-"
_SUFFIX = ".jsonl.zst"
_NUMBER = r"(0|[1-9][0-9]*)"
_NAME = re.compile(
    rf"({LANE_NAME.pattern}(?:\.(?:0|[1-9][0-9]*))?)@{_NUMBER}-{_NUMBER}(?:\.\.{_NUMBER}-{_NUMBER})?{re.escape(_SUFFIX)}"
)


class EpochId(NamedTuple):
    """One epoch of a lane."""

    generation: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.generation}-{self.epoch}"


@dataclass(frozen=True, order=True)
class Name:
    """`<lane>@<generation>-<epoch>.jsonl.zst`, of several epochs `<lane>@<first>..<last>.jsonl.zst`."""

    lane: str
    first: EpochId
    last: EpochId

    @classmethod
    def of(cls, gid: Gid) -> Self:
        """The file of one epoch."""
        one = EpochId(gid.generation, gid.epoch)
        return cls(gid.lane, one, one)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None for a file of somebody else."""
        match = _NAME.fullmatch(text)
        if match is None:
            return None
        first = EpochId(int(match[2]), int(match[3]))
        return cls(match[1], first, first if match[4] is None else EpochId(int(match[4]), int(match[5])))

    @property
    def gid(self) -> Gid | None:
        """Of the only epoch; None for several."""
        return Gid(self.lane, *self.first) if self.first == self.last else None

    @property
    def part(self) -> str:
        """What it is called before it is committed."""
        return f"{PART}{self}"

    def __str__(self) -> str:
        epochs = str(self.first) if self.first == self.last else f"{self.first}..{self.last}"
        return f"{self.lane}@{epochs}{_SUFFIX}"
