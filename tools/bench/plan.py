"""What the user asks for, and what a measure is."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tools.bench.page import Section
from tools.bench.results import Result, Task
from tools.peers.systems import System
from tools.testbed.servers import Servers
from tools.testbed.workload import Kind

#: milliseconds; of a goal, what is measured so far away is compared with the nearest
FAR = 2.5


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options of `./run bench`; each measure takes those that it needs."""

    systems: Sequence[System]
    workloads: Sequence[Kind]
    #: of each backlog: messages of 792 bytes, fewer where they are longer
    messages: Sequence[int]
    #: messages a second
    rates: Sequence[int]
    #: how long a rate is held
    seconds: int
    #: seconds at a rate before anything counts
    warm_up: int
    #: seconds of each system before any latency, and whether something is measured once in advance, without counting
    rehearsal: int
    #: milliseconds between each system and Postgres; empty: none are added
    round_trips: Sequence[float] = ()
    #: values of `epoch.trigger`
    triggers: Sequence[str] = ()
    #: of `axes.AXES`
    axes: Sequence[str] = ()
    #: factor for all sizes of the costs
    scale: float = 1.0

    @property
    def places(self) -> Sequence[float | None]:
        """The round trips; None: without a proxy."""
        return self.round_trips or [None]

    def at(self, place: float | None) -> list[System]:
        """The systems for which such a distance means something."""
        return [one for one in self.systems if place is None or one.can_be_away]


@dataclass(frozen=True)
class Measure:
    """What can be measured."""

    #: what is measured together, once in each run
    rounds: Callable[[Plan, Servers], Iterator[Sequence[Task]]]
    sections: Callable[[Plan, Sequence[Result]], Iterable[Section]]
    #: which systems it can measure
    takes: Callable[[System], bool] = lambda _: True
