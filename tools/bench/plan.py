"""What the user asks for, and what a measure is."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tools.bench.page import Section
from tools.bench.results import Result, Task
from tools.peers.systems import System
from tools.testbed.servers import Servers
from tools.testbed.workload import Kind

#: milliseconds; of a goal, what is measured so far away is compared with the nearest
FAR = 2.5
T = TypeVar("T")


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
    #: seconds of each system before any latency; 0: nothing is measured in advance, without counting
    rehearsal: int
    #: milliseconds between each system and Postgres; empty: none are added
    round_trips: Sequence[float]
    #: values of `epoch.trigger`
    triggers: Sequence[str]
    #: of `axes.AXES`
    axes: Sequence[str]
    #: factor for all sizes of the costs
    scale: float
    runs: int

    @property
    def numbers(self) -> range:
        """Of the runs."""
        return range(1, self.runs + 1)

    def passes(self, items: Sequence[T]) -> Iterator[tuple[int, float | None, T, System]]:
        """Run, round trip, item, system. All systems have an item one after the other, and each run begins with another
        system, so that none is always first or last; each run has everything, so that its figures are of one time."""
        for run in self.numbers:
            for round_trip in self.round_trips or [None]:
                for item in items:
                    first = (run - 1) % len(self.systems)
                    for system in [*self.systems[first:], *self.systems[:first]]:
                        yield run, round_trip, item, system


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What can be measured."""

    #: everything that is measured, in order
    tasks: Callable[[Plan, Servers], Iterator[Task]]
    sections: Callable[[Plan, Sequence[Result]], Iterable[Section]]
    #: which of the user's systems it measures; None: it has its own
    takes: Callable[[System], bool] | None = None
    #: whether there may be a distance to Postgres
    far: bool = False
    #: fetches and compiles what its own systems need
    fetch: Callable[[], object] = lambda: None
