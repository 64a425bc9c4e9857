"""The supervisor: starts and restarts the worker process that runs the lanes. It is small and does not import Spark.

It ends in one of these ways:
1. the worker ends without an error, by itself or after SIGTERM or SIGINT: with the worker's status
2. the worker ends with an error that the next worker would meet, too: with the worker's status
3. the worker dies (a signal, an unexpected error, its JVM gone, a span that hangs), and the strategy of `restart`
   allows no other one, or a stop was requested: CrashLoop
4. several workers in a row die before they begin any work: CrashLoop, whatever the strategy
5. SIGTERM or SIGINT while no worker lives: OK
"""

import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from types import FrameType

import structlog

from app.config.settings import Settings
from app.errors import CrashLoop, ExitStatus
from app.model.death import Cause, Death
from app.process import STOP_SIGNALS
from app.supervisor.restart_strategy import pause
from app.supervisor.worker_life import LOOK_SECONDS, WorkerLife
from app.supervisor.worker_process import InWorker

log = structlog.get_logger()

#: consecutive deaths before any work begins that make a crash loop
MOST_EARLY_DEATHS = 5
#: seconds after a stop request until a warning that the worker still runs
STOP_GRACE_SECONDS = 30.0


@dataclass(frozen=True)
class WorkerRole:
    """Returned in a worker: its link, and the death of its predecessor."""

    #: file descriptor of the worker's end of the link
    link: int
    #: death of the previous worker
    after_death: Death | None


class Supervisor:
    """Runs one worker after another; owns what outlives a worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._restarts: Counter[str] = Counter()
        #: monotonic times in seconds
        self._deaths: list[float] = []
        self._early_deaths = 0
        #: name of the received stop signal
        self._stop_signal: str | None = None

    def run(self) -> "int | WorkerRole":
        """Run workers. Returns the exit status in the supervisor and, as fork() does, a WorkerRole in each worker.
        Raises CrashLoop."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)
        before: Death | None = None
        while self._stop_signal is None:
            try:
                life = WorkerLife(self._settings.guard.message_timeout.total_seconds())
            except InWorker as born:
                return WorkerRole(born.link, before)
            self._attend(life)
            death = life.death()
            if death is None or (self._stop_signal is not None and life.status > 0):
                return life.status
            before = self._await_restart(life, death)
        return ExitStatus.OK

    def _attend(self, life: WorkerLife) -> None:
        """Attend the worker until it has ended; send the stop request."""
        requested_at: float | None = None
        warned = False
        while life.go_on():
            if self._stop_signal is not None and requested_at is None:
                life.stop(self._stop_signal)
                requested_at = time.monotonic()
            elif requested_at is not None and not warned and time.monotonic() - requested_at > STOP_GRACE_SECONDS:
                log.warning("the worker has not stopped yet", seconds=STOP_GRACE_SECONDS)
                warned = True

    def _await_restart(self, life: WorkerLife, death: Death) -> Death:
        """Wait until the next worker may start; returns the death to pass to it. Raises CrashLoop."""
        self._deaths.append(time.monotonic())
        self._early_deaths = self._early_deaths + 1 if life.was_early else 0
        seconds = self._seconds_to_restart()
        log.warning("worker died", cause=death.cause.value, detail=death.detail, restart_in_seconds=seconds)
        if seconds is None:
            raise CrashLoop(self._why_not_again(death), hint=_hint(death))
        self._restarts[death.label] += 1
        restart_at = time.monotonic() + seconds
        while self._stop_signal is None and time.monotonic() < restart_at:
            time.sleep(LOOK_SECONDS)
        return replace(death, restarts=dict(self._restarts))

    def _seconds_to_restart(self) -> float | None:
        if self._stop_signal is not None or self._early_deaths >= MOST_EARLY_DEATHS:
            return None
        seconds = pause(self._settings.restart, self._deaths)
        return None if seconds is None else round(seconds, 1)

    def _why_not_again(self, death: Death) -> str:
        if self._stop_signal is not None:
            return f"the worker died while it was stopping: {death}"
        if self._early_deaths >= MOST_EARLY_DEATHS:
            return f"{self._early_deaths} workers in a row died before they began any work, the last one: {death}"
        strategy, times = self._settings.restart.strategy.value, len(self._deaths)
        return f"the worker died and restart.strategy {strategy} allows no other one (deaths so far: {times}): {death}"

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._stop_signal = self._stop_signal or signal.Signals(number).name


def _hint(death: Death) -> str:
    """What the operator does about it; nothing is lost, as the next start settles prepared transactions."""
    by_cause = {
        Cause.SIGNAL: "find out who sent the signal",
        Cause.EXIT: "read what the worker logged before it ended",
        Cause.HANG: "see whether target and Kafka answer; if an epoch may take so long, raise guard.message_timeout",
        Cause.OOM: "give it more memory, or lower epoch.max_messages or spark.driver.memory in spark.conf",
    }
    return f"{by_cause[death.cause]}; then start it again, it goes on where the ledger says"
