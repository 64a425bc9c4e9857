"""Makes savepoints every `savepoints.every`, in a thread beside the lanes; no lane waits for it.

The oldest of them are disposed of, so that `savepoints.keep` are left; savepoints that an operator made stay. When the
next one is due is read from the directory, so that a restart makes none too many. Failures are logged, counted, and
tried again: the lanes do not depend on savepoints.
"""

import datetime
import threading
from collections.abc import Mapping
from contextlib import suppress

import structlog

from app.config.settings import Settings
from app.errors import Refused, SurelaneError
from app.metrics.lane_metrics import LaneMetrics
from app.savepoint.folder import SavepointFolder
from app.savepoint.picture import picture
from app.savepoint.savepoint import Savepoint

log = structlog.get_logger()

#: most seconds between two tries after a failure
LONGEST_PAUSE_SECONDS = 60.0


class PeriodicSavepoints:
    """The thread; each StreamingRun has its own."""

    def __init__(self, settings: Settings, every: datetime.timedelta, metrics: Mapping[str, LaneMetrics]) -> None:
        self._settings, self._every, self._metrics = settings, every, metrics
        self._folder = SavepointFolder(settings.savepoints.directory)
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
                pause = self._round()
            except (SurelaneError, OSError) as error:
                because = error.message if isinstance(error, SurelaneError) else str(error)
                log.warning("no savepoint", because=because)
                for metrics in self._metrics.values():
                    metrics.savepoint_failed()
                pause = min(self._every.total_seconds(), LONGEST_PAUSE_SECONDS)

    def _round(self) -> float:
        """Make a savepoint if one is due, and export the newest; returns the seconds until the next one is due."""
        mine = [one for one in self._folder.listing()[0] if one.periodic and one.lane == self._settings.lane]
        if not mine or self._left(mine[-1]) <= 0:
            mine.append(self._make())
            for old in mine[: -self._settings.savepoints.keep]:
                with suppress(Refused):  # an operator was faster
                    self._folder.dispose(old.name)
        for metrics in self._metrics.values():
            metrics.set_savepoint(mine[-1].made_at)
        return max(0.0, self._left(mine[-1]))

    def _left(self, newest: Savepoint) -> float:
        return (newest.made_at + self._every - datetime.datetime.now(datetime.UTC)).total_seconds()

    def _make(self) -> Savepoint:
        made = picture(self._settings, self._folder.free_name(self._settings.lane), periodic=True)
        self._folder.write(made)
        log.info("savepoint", name=made.name, position=made.position.nested())
        return made
