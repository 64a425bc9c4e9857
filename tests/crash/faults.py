"""Faults that strike a living lane: each is in force inside its `with` block, and mended at the block's end."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tests.crash.cases import Fault
from tests.fix_proxy import Proxy
from tests.waiting import eventually
from tools.devstack import Kafka, Postgres

#: the lane looks for the target at least once a second
NOTICE_SECONDS = 180.0


@dataclass(frozen=True)
class Surroundings:
    """What a lane needs, and what can be taken away from it."""

    kafka: Kafka
    target: Postgres
    proxy: Proxy

    def without(self, fault: Fault) -> AbstractContextManager[None]:
        """Inside the block the fault is there; KILL is no matter of the surroundings."""
        faults: dict[Fault, Callable[[], AbstractContextManager[None]]] = {
            Fault.POSTGRES: self._no_target,
            Fault.CUT: lambda: self._no_network(self.proxy.cut),
            Fault.LOST: lambda: self._no_network(self.proxy.lose),
            Fault.BROKER: self._no_broker,
        }
        return faults[fault]()

    @contextmanager
    def _no_target(self) -> Iterator[None]:
        self.target.stop("immediate")
        yield
        self.target.start()

    @contextmanager
    def _no_broker(self) -> Iterator[None]:
        self.kafka.stop()
        yield
        self.kafka.start()

    @contextmanager
    def _no_network(self, take: Callable[[], None]) -> Iterator[None]:
        """Until the lane has tried in vain to come back."""
        before = self.proxy.refused
        take()
        yield
        eventually(lambda: self.proxy.refused > before, NOTICE_SECONDS, "the lane to notice that the network is gone")
        self.proxy.restore()
