"""Runs the demo step by step. All observations are from outside; nothing is assumed about the lane."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Engine

from app.config.settings import Settings
from app.config.values import postgres_url
from app.db.engine import make_engine
from tools.demo.compare import Comparison, compare
from tools.demo.crash import Crash, crash
from tools.demo.ending import DemoEnding, ending
from tools.demo.lane import DemoLane
from tools.demo.load import Load
from tools.demo.onlookers import Onlookers
from tools.demo.progress import Progress
from tools.demo.queries import CONFIGURATION, QUERY, QueryResult, prepare_reports, query_end, query_result
from tools.demo.recovery import DemoRecovery, first_epoch, recovery
from tools.demo.stage import prepare_databases
from tools.demo.timeline import usual_lag
from tools.devstack import Stack
from tools.devstack.roles import READER
from tools.devstack.stack import DATABASE

#: generous: a busy machine is no failure of the lane
CATCH_UP_SECONDS = 180.0
#: the load continues for so long after the lane has caught up, to show normal operation
AFTER_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class DemoView:
    """All observations; moments are monotonic seconds."""

    #: load average of the machine before the start, which shows other work on it
    load_before: float
    began: float  #: start of the load
    load_ended: float
    caught_up: float  #: after the crash, the lag is as before it
    ended: float  #: all messages are applied
    onlookers: Onlookers
    load: Load
    crash: Crash
    recovery: DemoRecovery
    ending: DemoEnding
    comparisons: tuple[Comparison, ...]
    #: None: without queries
    queries: QueryResult | None


def play(stack: Stack, seconds: int, progress: Progress, *, queries: bool = False) -> DemoView:
    """Run the demo on a stack without data; `seconds` is the least time under load before the crash, and after it.
    `queries`: with a query, a rollup and a history."""
    lane, load_before = DemoLane(stack.data_dir / "lane"), os.getloadavg()[0]
    query = DemoLane(lane.folder, QUERY) if queries else None
    # 1. Set up both databases with their tables, then Kafka and Debezium, which takes a snapshot of the source.
    with progress.step("two Postgres servers with pgbench's tables and an order shop"):
        prepare_databases(stack)
        if queries:
            prepare_reports(stack)
    with progress.step("Kafka, Kafka Connect, Debezium"):
        settings = lane.configure(stack.up(), CONFIGURATION if queries else None)
    with progress.step("surelane migrate"):
        lane.migrate()
    # Observers use a read-only role.
    source, target = (make_engine(postgres_url(one.url(DATABASE, READER))) for one in (stack.source, stack.target))
    with Onlookers(settings, target).looking() as onlookers, _killed_at_the_end(lane, query):
        return _Play(stack, settings, lane, query, source, target, onlookers, progress, load_before).run(seconds)


@contextmanager
def _killed_at_the_end(*lanes: DemoLane | None) -> Iterator[None]:
    try:
        yield
    finally:
        for lane in lanes:
            if lane is not None:
                lane.kill()


@dataclass(frozen=True)
class _Play:
    stack: Stack
    settings: Settings
    lane: DemoLane
    #: None: without queries
    query: DemoLane | None
    source: Engine
    target: Engine
    onlookers: Onlookers
    progress: Progress
    load_before: float

    def run(self, seconds: int) -> DemoView:
        """Run the steps from the lane's first start to the comparison."""
        # 2. The lane applies the snapshot.
        self._start("surelane run: the lane applies Debezium's snapshot")
        load = Load(self.stack.source.url(DATABASE), self.lane.folder)
        with load.running():
            # 3. Clients write to the source.
            began = time.monotonic()
            self._let_work(load, began + seconds, "pgbench and the shop work at the source, the lane follows")
            # 4. Kill the lane, and restart it as a service manager does.
            hit = self._crash(load)
            log_from = self.lane.log_size()
            caught_up = self._recover(load, hit)
            # 5. Normal operation, then the clients stop.
            until = max(hit.at + seconds, time.monotonic() + AFTER_SECONDS)
            self._let_work(load, until, "the load goes on")
            last_beat, load_ended = load.stop(), time.monotonic()
        # 6. The probe makes the last change: once it and the end of its transaction are applied, everything is.
        ended = self._finish(last_beat)
        with self.progress.step("SIGTERM: the lane stops in good order"):
            self.lane.stop()
        queries = self._query_result()
        with self.progress.step("comparing source and target"):
            found = ending(self.settings, self.target, self.onlookers.watch.position, self.onlookers.topic.end())
            comparisons = compare(self.source, self.target)
        return DemoView(
            load_before=self.load_before,
            began=began,
            load_ended=load_ended,
            caught_up=caught_up,
            ended=ended,
            onlookers=self.onlookers,
            load=load,
            crash=hit,
            recovery=recovery(hit, self.onlookers.watch.epochs, caught_up, self.lane.events(log_from)),
            ending=found,
            comparisons=comparisons,
            queries=queries,
        )

    def _start(self, title: str) -> None:
        with self.progress.step(title) as detail:
            self.lane.start()
            if self.query is not None:
                self.query.start()
            self._until(self._has_everything, "the lane to apply the snapshot", detail, self.lane.must_live)

    def _let_work(self, load: Load, until: float, title: str) -> None:
        with self.progress.step(title) as detail:
            limit = until - time.monotonic() + CATCH_UP_SECONDS
            self._until(
                lambda: time.monotonic() >= until, "time to pass", detail, self.lane.must_live, load.check, limit=limit
            )

    def _crash(self, load: Load) -> Crash:
        with self.progress.step("SIGKILL: the lane's process group dies in the middle of an epoch"):
            load.check()
            hit = crash(self.lane, self.target, self.onlookers.watch, self.onlookers.topic)
            if self.query is not None:
                self.query.kill()
            return hit

    def _recover(self, load: Load, hit: Crash) -> float:
        """Restart the lane; returns the moment at which the lag is back to its level before the crash."""
        usual = max(usual_lag(self.onlookers.lags(), hit.at), 1)

        def caught_up() -> bool:
            return first_epoch(hit, self.onlookers.watch.epochs) is not None and self.onlookers.lag <= usual

        with self.progress.step("surelane run again, under load: it settles, replays and catches up") as detail:
            self.lane.start()
            if self.query is not None:
                self.query.start()
            reason = "the killed lane to catch up"
            return self._until(caught_up, reason, detail, self.lane.must_live, load.check)

    def _finish(self, last_beat: int) -> float:
        def finished() -> bool:
            return self.onlookers.watch.beat >= last_beat and self._has_everything()

        with self.progress.step("the load has ended, the lane applies the rest") as detail:
            return self._until(finished, "the lane to apply the rest", detail, self.lane.must_live)

    def _query_result(self) -> QueryResult | None:
        query, end = self.query, self.onlookers.topic.end()
        if query is None:
            return None
        with self.progress.step("the query catches up, and is compared with Postgres' batch"):

            def caught_up() -> bool:
                return query_end(self.settings, self.target) == end

            self.onlookers.until(caught_up, "the query to catch up", CATCH_UP_SECONDS, [query.must_live])
            query.stop()
            return query_result(self.stack, self.settings, end)

    def _has_everything(self) -> bool:
        position = self.onlookers.watch.position
        return position > 0 and position == self.onlookers.topic.end()

    def _until(
        self,
        done: Callable[[], bool],
        reason: str,
        detail: Callable[[str], None],
        *checks: Callable[[], None],
        limit: float = CATCH_UP_SECONDS,
    ) -> float:
        watch = self.onlookers.watch

        def show() -> None:
            detail(f"epoch {len(watch.epochs):,}, {watch.position:,} messages applied, {self.onlookers.lag:,} behind")

        return self.onlookers.until(done, reason, limit, [show, *checks])
