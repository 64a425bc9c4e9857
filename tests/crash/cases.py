"""The cases of the crash matrix: where the lane is when a fault strikes, in which mode, and what strikes.

All of them are too many for every day; `sample` takes some so that each place, mode and fault is there, and as many
pairs of them as possible.
"""

import enum
import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass

from app.config.settings import CommitMode
from app.failpoint import NAMES

#: places that only the two-phase mode passes
TWO_PHASE_ONLY = ("before-commit", "after-commit")
#: what the names of places begin with that a lane passes only with an archive
ARCHIVE = "archive-"
#: cases of an ordinary run; the places alone are twelve, the pairs of mode and fault fifteen
SAMPLE_SIZE = 16


class Fault(enum.Enum):
    """What happens to the lane or to what it needs."""

    KILL = "kill"  #: SIGKILL of its whole process group
    POSTGRES = "postgres"  #: the target stops without a farewell ("immediate") and comes back
    CUT = "cut"  #: the network to the target breaks, both sides notice
    LOST = "lost"  #: the network to the target breaks, the server does not notice and keeps the session with its locks
    BROKER = "broker"  #: Kafka stops and comes back


@dataclass(frozen=True)
class Case:
    """One cell of the matrix."""

    place: str
    mode: CommitMode
    fault: Fault

    def __str__(self) -> str:
        return f"{self.place}-{self.mode.value}-{self.fault.value}"

    @property
    def archived(self) -> bool:
        """Whether the lane has an archive: where the place is the archive's, and in every other of the other cases."""
        numbers = NAMES.index(self.place), list(CommitMode).index(self.mode), list(Fault).index(self.fault)
        return self.place.startswith(ARCHIVE) or sum(numbers) % 2 == 0

    @property
    def pairs(self) -> set[tuple[object, object]]:
        """What this case covers."""
        return set(itertools.combinations((self.place, self.mode, self.fault), 2))


def matrix() -> list[Case]:
    """Every case that there is."""
    cells = itertools.product(NAMES, CommitMode, Fault)
    return [Case(*cell) for cell in cells if cell[0] not in TWO_PHASE_ONLY or cell[1] is CommitMode.TWO_PHASE]


def sample(seed: int, size: int = SAMPLE_SIZE) -> list[Case]:
    """`size` cases, each chosen for what it covers that the ones before do not; the seed decides between equals."""
    left = matrix()
    random.Random(seed).shuffle(left)
    chosen: list[Case] = []
    while left and len(chosen) < size:
        best = max(left, key=lambda case: _gain(case, chosen))
        left.remove(best)
        chosen.append(best)
    return chosen


def _gain(case: Case, chosen: Iterable[Case]) -> tuple[int, int]:
    """(places, modes and faults that are new, pairs that are new)."""
    values = {value for other in chosen for value in (other.place, other.mode, other.fault)}
    pairs = {pair for other in chosen for pair in other.pairs}
    return len({case.place, case.mode, case.fault} - values), len(case.pairs - pairs)
