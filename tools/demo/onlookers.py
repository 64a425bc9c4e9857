"""All observers: of the target's ledger and probe, of the topic, and the reader that searches for partial epochs."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

from sqlalchemy import Engine

from app.config.settings import Settings
from tools.demo import snapshots, topic, watch
from tools.demo.background import Background
from tools.demo.failure import DemoFailed
from tools.demo.snapshots import SnapshotReader
from tools.demo.timeline import lags
from tools.demo.topic import Topic
from tools.demo.watch import TargetWatch

LOOK_SECONDS = 0.05


class Onlookers:
    """Three threads, each with its own connection, that observe from the first epoch to the last."""

    def __init__(self, settings: Settings, target: Engine) -> None:
        self.watch = TargetWatch(target, settings.target.db_schema, settings.lane)
        self.topic = Topic(settings.source.bootstrap_servers, settings.source.topics[0])
        self.snapshots = SnapshotReader(target, settings.target.db_schema, settings.lane)
        self._threads = (
            Background("watch", self.watch.step, watch.EVERY_SECONDS),
            Background("topic", self.topic.step, topic.EVERY_SECONDS),
            Background("snapshots", self.snapshots.step, snapshots.EVERY_SECONDS),
        )

    @contextmanager
    def looking(self) -> Iterator["Onlookers"]:
        """Observe until the block ends."""
        with ExitStack() as stack:
            for closed in (self.watch, self.topic, self.snapshots):
                stack.enter_context(closing(closed))
            for thread in self._threads:
                stack.enter_context(thread)
            yield self

    @property
    def lag(self) -> int:
        """Messages in the topic that are not visible at the target, at the last observation."""
        return max(0, self.topic.lengths[-1].end - self.watch.position) if self.topic.lengths else 0

    def lags(self) -> list[tuple[float, int]]:
        """(monotonic seconds, lag in messages) at each observation of the topic."""
        return lags(list(self.topic.lengths), list(self.watch.epochs))

    def until(self, done: Callable[[], bool], reason: str, seconds: float, checks: list[Callable[[], None]]) -> float:
        """Poll `done` until it is true; returns the moment (monotonic seconds).

        `checks` run at each poll and raise if it cannot happen any more; raises DemoFailed after `seconds`.
        """
        end = time.monotonic() + seconds
        while not done():
            for check in (*(thread.check for thread in self._threads), *checks):
                check()
            if time.monotonic() > end:
                raise DemoFailed(f"gave up after {seconds:.0f} s waiting for {reason}")
            time.sleep(LOOK_SECONDS)
        return time.monotonic()
