"""Makes savepoints every `savepoints.every`, in a thread beside the lanes; no lane waits for it.

The oldest of them are disposed of, so that `savepoints.keep` are left; savepoints that an operator made stay. When the
next one is due is read from the directory, so that a restart makes none too many. Failures are logged, counted, and
tried again: the lanes do not depend on savepoints.
"""

import datetime
import threading
from collections.abc import Mapping
from pathlib import Path

import structlog

from app.config.settings import Settings
from app.errors import SurelaneError
from app.metrics.lane_metrics import LaneMetrics
from app.savepoint.folder import SavepointFolder
from app.savepoint.picture import picture
from app.savepoint.savepoint import Savepoint, free_name

log = structlog.get_logger()

#: most seconds between two tries after a failure
LONGEST_PAUSE_SECONDS = 60.0


class PeriodicSavepoints:
    """The thread; each StreamingRun has its own."""

    def __init__(self, settings: Settings, every: datetime.timedelta, metrics: Mapping[str, LaneMetrics]) -> None:
        self._settings, self._every, self._metrics = settings, every, metrics
        self._folder = SavepointFolder(Path(settings.savepoints.directory))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="savepoints", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, behind the savepoint that it is making."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            try:
                if not self._until_due():
                    self._make()
                pause = self._until_due()
            except (SurelaneError, OSError) as error:
                because = error.message if isinstance(error, SurelaneError) else str(error)
                log.warning("no savepoint", because=because)
                for metrics in self._metrics.values():
                    metrics.savepoint_failed()
                pause = min(self._every.total_seconds(), LONGEST_PAUSE_SECONDS)

    def _make(self) -> None:
        name = free_name(self._settings.lane, self._folder.names())
        made = picture(self._settings, name, periodic=True)
        self._folder.write(made)
        log.info("savepoint", name=name, position=made.position.nested())
        for old in self._mine()[: -self._settings.savepoints.keep]:
            self._folder.dispose(old.name)

    def _until_due(self) -> float:
        """Seconds until the next savepoint is due; exports the newest one."""
        mine = self._mine()
        if not mine:
            return 0.0
        newest = mine[-1].made_at
        for metrics in self._metrics.values():
            metrics.set_savepoint(newest)
        return max(0.0, (newest + self._every - datetime.datetime.now(datetime.UTC)).total_seconds())

    def _mine(self) -> list[Savepoint]:
        """The usable periodic savepoints of this lane, the oldest first."""
        found = (self._folder.get(name) for name in self._folder.names() if self._folder.problem(name) is None)
        mine = [one for one in found if one.periodic and one.lane == self._settings.lane]
        return sorted(mine, key=lambda one: one.made_at)
