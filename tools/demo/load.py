"""The load: pgbench and the shop as clients of the source, and the probe that measures latency."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tools.demo import probe, shop
from tools.demo.background import Background
from tools.demo.failure import DemoFailed
from tools.demo.probe import Probe
from tools.demo.programs import pgbench
from tools.demo.shop import Shop
from tools.devstack.process import Daemon
from tools.devstack.wait import wait_for

#: target rate of pgbench in transactions a second; each makes four changes
PGBENCH_RATE = 150
PGBENCH_CLIENTS = 2
#: longer than any demo, which stops pgbench
PGBENCH_SECONDS = 3600
SESSION_END_SECONDS = 10.0


class Load:
    """All clients that write to the source."""

    def __init__(self, url: str, folder: Path) -> None:
        self.shop, self.probe = Shop(url), Probe(url)
        self._url = url
        self._pgbench = Daemon(name="pgbench", pid_file=folder / "pgbench.pid", log_file=folder / "pgbench.log")
        self._threads = (
            Background("shop", self.shop.step, shop.EVERY_SECONDS),
            Background("probe", self.probe.step, probe.EVERY_SECONDS),
        )

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Run the clients until the block ends, or until `stop`."""
        options = [f"--rate={PGBENCH_RATE}", f"--client={PGBENCH_CLIENTS}", f"--time={PGBENCH_SECONDS}", "--no-vacuum"]
        self._pgbench.start([str(pgbench()), *options, self._url], os.environ)
        with closing(self.shop), closing(self.probe):
            try:
                shop_thread, probe_thread = self._threads
                with shop_thread, probe_thread:
                    yield self
            finally:
                self._pgbench.stop()

    def check(self) -> None:
        """Raise if a client has failed; DemoFailed for pgbench."""
        for thread in self._threads:
            thread.check()
        if self._pgbench.pid is None:
            raise DemoFailed(f"pgbench ended by itself:\n{self._pgbench.log_tail()}")

    def stop(self) -> int:
        """Stop all clients; returns the number of the last beat, which is the last commit at the source."""
        self.check()
        self._pgbench.stop()
        for thread in self._threads:
            thread.stop()
        # A backend whose client is gone may still be committing.
        wait_for(self.probe.is_alone, reason="the end of the other clients' sessions", seconds=SESSION_END_SECONDS)
        self.probe.step()
        return self.probe.beats
