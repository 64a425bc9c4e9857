"""Names of the archive's files: they contain lane, generation and epoch, as a gid does."""

import re
from dataclasses import dataclass
from typing import NamedTuple, Self

from app.model.gid import LANE_NAME, Gid

#: prefix of uncommitted files
PART = ".part-"
_SUFFIX = ".jsonl.zst"
_NUMBER = r"(0|[1-9][0-9]*)"
_NAME = re.compile(
    rf"({LANE_NAME.pattern}(?:\.(?:0|[1-9][0-9]*))?)@{_NUMBER}-{_NUMBER}(?:\.\.{_NUMBER}-{_NUMBER})?{re.escape(_SUFFIX)}"
)


class EpochId(NamedTuple):
    generation: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.generation}-{self.epoch}"


@dataclass(frozen=True, order=True)
class Name:
    """`<lane>@<generation>-<epoch>.jsonl.zst`; for several epochs `<lane>@<first>..<last>.jsonl.zst`."""

    lane: str
    first: EpochId
    last: EpochId

    @classmethod
    def of(cls, gid: Gid) -> Self:
        """The name of one epoch's file."""
        one = EpochId(gid.generation, gid.epoch)
        return cls(gid.lane, one, one)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The name; None for a file that is not of an archive."""
        match = _NAME.fullmatch(text)
        if match is None:
            return None
        first = EpochId(int(match[2]), int(match[3]))
        return cls(match[1], first, first if match[4] is None else EpochId(int(match[4]), int(match[5])))

    @property
    def gid(self) -> Gid | None:
        """The gid of a single epoch's file; None for several epochs."""
        return Gid(self.lane, *self.first) if self.first == self.last else None

    @property
    def part(self) -> str:
        """The file's name before it is committed."""
        return f"{PART}{self}"

    def __str__(self) -> str:
        epochs = str(self.first) if self.first == self.last else f"{self.first}..{self.last}"
        return f"{self.lane}@{epochs}{_SUFFIX}"
