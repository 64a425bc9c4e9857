"""The service of a worker process: run the lanes of one configuration, with retries, until a stop request."""

import random
import signal
import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from types import FrameType

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.collector import settle_collector
from app.config.settings import Settings
from app.dispatch.pool import Pool
from app.errors import (
    Contended,
    LogTruncated,
    MessagesGone,
    ServerExhausted,
    SparkFailed,
    SparkGone,
    SurelaneError,
    TooManyParked,
    Unreachable,
    Verdict,
)
from app.ledger.pauses import BY_ITSELF, Pauses
from app.logs import configure
from app.metrics.health import Health
from app.metrics.lane_metrics import AllMetrics
from app.metrics.server import serve
from app.model.death import Death
from app.process import STOP_SIGNALS
from app.recover.gap import named
from app.source.stream import warm_up
from app.spark.job_errors import spark_errors
from app.spark.jvm import Jvm
from app.spark.session import ComingSession, begin_session
from app.supervisor.link import Link
from app.worker.lane_factory import make_pool
from app.worker.lane_writer import LaneWriter
from app.worker.spark_run import SparkRun, StopRequested
from app.worker.streaming_run import StreamingRun

log = structlog.get_logger()

#: seconds: first and longest pause between two attempts
BACKOFF_SECONDS = (0.5, 15.0)
#: seconds that a first start waits for servers; a server that never answered suggests a wrong address, not an outage
START_PATIENCE_SECONDS = 60.0
#: consecutive attempts without an epoch before the service gives up on a failure that is no Unreachable
MAX_ATTEMPTS_WITHOUT_PROGRESS = 8
#: the same for a server without memory, which other sessions may free: about four minutes
MAX_ATTEMPTS_EXHAUSTED = 20


def run(
    settings: Settings,
    until_caught_up: bool,
    link: Link,
    death: Death | None,
    jvm: Jvm,
    removable: Collection[str] = (),
    log_file: Path | None = None,
) -> None:
    """Run until a stop request, or until caught up; raises the SurelaneError that ended it otherwise.

    `link`: to the supervisor; `death`: of the previous worker; `jvm`: for Spark's session, still starting; `removable`:
    topics that the lanes may stop reading; `log_file`: besides stderr.
    """
    configure(settings.lane, file=log_file)
    stop = threading.Event()

    def stop_because(reason: str) -> None:
        if not stop.is_set():
            log.info("stopping at the end of the epoch", lane=settings.lane, because=reason)
            stop.set()

    def on_signal(number: int, _: FrameType | None) -> None:
        stop_because(signal.Signals(number).name)

    for number in STOP_SIGNALS:
        signal.signal(number, on_signal)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    if death is not None:
        log.info("started after a death", lane=settings.lane, cause=death.cause.value, detail=death.detail)
    health = Health()
    with ExitStack() as stack:
        link.on_stop(stop_because)
        if settings.metrics.port:
            server = serve(settings.metrics.host, settings.metrics.port, None, health)
            stack.callback(server.stop)
        spark = begin_session(jvm)
        stack.callback(spark.stop)
        settle_collector()  # garbage collection was off since the process began
        RetryLoop(settings, spark, health, stop, until_caught_up, link, death, removable).keep_running()


class RetryLoop:
    """Repeats StreamingRun, or QueryRun; owns what outlives one run. Tests use it with their own Spark session."""

    def __init__(
        self,
        settings: Settings,
        spark: ComingSession,
        health: Health,
        stop: threading.Event,
        until_caught_up: bool,
        link: Link | None = None,
        death: Death | None = None,
        removable: Collection[str] = (),
    ) -> None:
        """`link`: to the supervisor, if there is one; `death`: of the previous worker; `removable`: see `run`."""
        self._removable = removable
        self._settings, self._spark, self._health = settings, spark, health
        self._stop, self._until_caught_up = stop, until_caught_up
        self._link, self._death = link or Link(), death
        self._metrics = AllMetrics(death.restarts if death else {})
        self._writers: dict[str, LaneWriter] = {}
        self._without_progress = 0
        #: whether this process has processed an epoch
        self._ever_worked = False
        self._begun_at = time.monotonic()
        self._ever_started = False

    def keep_running(self) -> None:
        """Run, and run again after each failure that a retry may resolve."""
        if self._settings.query is not None:
            self._keep_running(self._query_run)
            return
        with closing(make_pool(self._settings, self._spark)) as pool:
            pool.on_death = self._stage_died
            pool.start()
            if self._until_caught_up or not self._settings.begins_early:  # else the first epoch needs no query
                warm_up(self._spark, self._settings.source)
            self._keep_running(partial(self._streaming_run, pool))

    def _streaming_run(self, pool: Pool) -> SparkRun:
        return StreamingRun(
            self._settings,
            self._spark,
            self._writers,
            self._health,
            self._metrics,
            self._link,
            self._death,
            pool,
            self._removable,
        )

    def _query_run(self) -> SparkRun:
        # lanes do not need what it imports
        from app.worker.query_run import QueryRun

        return QueryRun(
            self._settings, self._spark, self._writers, self._health, self._metrics, self._link, self._death
        )

    def _keep_running(self, make: Callable[[], SparkRun]) -> None:
        while not self._stop.is_set():
            running = make()
            try:
                with spark_errors(), running:
                    running.run(self._stop, until_caught_up=self._until_caught_up)
                    return
            except StopRequested:
                running.say("stopped")
                return
            except SurelaneError as failure:
                error = named(failure, self._settings) if isinstance(failure, MessagesGone | LogTruncated) else failure
                self._ever_started = self._ever_started or running.started
                self._death = None if running.started else self._death
                self._without_progress = 0 if running.epochs else self._without_progress + 1
                self._ever_worked = self._ever_worked or bool(running.epochs)
                running.say("failed", str(error))
                if isinstance(error, TooManyParked):
                    self._pause_lanes(error)
                if not self._try_again(error):
                    if self._ever_worked and isinstance(error, SparkFailed):  # its folders in /tmp are deleted, say
                        raise SparkGone(f"Spark worked in this process before: {error.message}") from failure
                    if error is not failure:
                        raise error from failure
                    raise
                self._pause(error)

    def _stage_died(self, cause: str) -> None:
        for metrics in list(self._metrics.values()):
            metrics.stage_died(cause)

    def _try_again(self, error: SurelaneError) -> bool:
        if error.verdict is not Verdict.RETRY:
            return False
        if isinstance(error, Contended):
            return True
        if not self._ever_started and time.monotonic() - self._begun_at > START_PATIENCE_SECONDS:
            return False
        if isinstance(error, ServerExhausted):
            return self._without_progress < MAX_ATTEMPTS_EXHAUSTED
        return isinstance(error, Unreachable) or self._without_progress < MAX_ATTEMPTS_WITHOUT_PROGRESS

    def _pause_lanes(self, error: TooManyParked) -> None:
        """The next run begins no epoch before an operator has resumed it; a failure is only logged: it comes again."""
        pauses = Pauses(self._settings.target.db_schema, self._settings.lane)
        try:
            with next(iter(self._writers.values())).engine.begin() as connection:
                pauses.place(connection, BY_ITSELF, error.message)
        except SQLAlchemyError as failure:
            log.warning("not paused", lane=self._settings.lane, because=str(failure).splitlines()[0])

    def _pause(self, error: SurelaneError) -> None:
        first, longest = BACKOFF_SECONDS
        seconds = min(longest, first * 2**self._without_progress) * random.uniform(0.7, 1.0)
        log.warning("trying again", lane=self._settings.lane, because=error.message, in_seconds=round(seconds, 1))
        for metrics in self._metrics.values():
            metrics.restarted(type(error).__name__)
        self._stop.wait(seconds)
