"""The life of one worker, from its start to the classification of its end."""

import datetime
import signal
import time
from dataclasses import replace
from urllib.parse import unquote

from app.errors import ExitStatus, SparkGone
from app.model.activity import Activity
from app.model.death import Cause, Death, ending
from app.oom import OomWatch
from app.supervisor.watchdog import Watchdog
from app.supervisor.worker_process import WorkerProcess

#: seconds between two checks
LOOK_SECONDS = 0.1
#: seconds; a worker that lived longer had started well, even if it had no work
EARLY_SECONDS = 600.0


class WorkerLife:
    """The constructor starts a worker, in which it raises InWorker."""

    def __init__(self, message_timeout_seconds: float) -> None:
        self._oom = OomWatch()
        self._born_at = time.monotonic()
        self._worker = WorkerProcess()
        self._watchdog = Watchdog(message_timeout_seconds, self._born_at)
        self._failure: str | None = None
        self._done = False
        self._hang: str | None = None
        self._killed_for_memory = False
        #: lane and activity of each span in progress, by its key
        self._spans: dict[str, tuple[str, str]] = {}

    def go_on(self) -> bool:
        """Read the link for LOOK_SECONDS, kill a worker that hangs; False once it and all its processes are gone."""
        status = self._worker.status
        for words in self._worker.lines(LOOK_SECONDS if status is None else 0.0):
            self._note(words)
        if status is not None:
            self._killed_for_memory = self._oom.has_killed
            self._worker.clean_up()
            return False
        self._oom.look()
        if (hang := self._watchdog.look(time.monotonic())) is not None:
            self._hang = hang
            self._worker.kill()
        return True

    def stop(self, reason: str) -> None:
        """Request a stop at the epoch's end."""
        self._worker.stop(reason)

    @property
    def status(self) -> int:
        """Exit status, negative for a signal; the worker must have ended."""
        status = self._worker.status
        assert status is not None, "its life is over"
        return status

    @property
    def was_early(self) -> bool:
        """Whether it ended within EARLY_SECONDS, before it began any work."""
        return not self._watchdog.begun and time.monotonic() - self._born_at < EARLY_SECONDS

    def death(self) -> Death | None:
        """How it died; None when it ended without an error, or with one that the next worker would meet, too."""
        death = death_of(
            self.status,
            failure=self._failure,
            hang=self._hang,
            killed_for_memory=self._killed_for_memory,
            unannounced=self._watchdog.begun and not self._done and self._failure is None,
        )
        return None if death is None else replace(death, doing=dict(self._spans.values()))

    def _note(self, words: list[str]) -> None:
        match words:
            case ["begin", key, messages, lane]:
                self._watchdog.begin(key, int(messages))
                self._spans[key] = (unquote(lane), Activity.FETCH.value)
            case ["doing", key, activity]:
                if key in self._spans:
                    self._spans[key] = (self._spans[key][0], activity)
            case ["busy", key]:
                self._watchdog.busy(key)
            case ["end", key]:
                self._watchdog.end(key)
                self._spans.pop(key, None)
            case ["failed", name]:
                self._failure = name
            case ["done"]:
                self._done = True
            case _:
                raise ValueError(f"unknown message of the worker: {words}")


def death_of(
    status: int, *, failure: str | None, hang: str | None, killed_for_memory: bool, unannounced: bool = False
) -> Death | None:
    """Classify the end of a worker by its exit status, its reported exception, the watchdog and the OOM killer.

    `unannounced`: it worked and did not report its end, so the status means nothing: `os._exit` in a transform.
    """
    cause, detail = Cause.EXIT, failure or f"status {status}"
    spark_gone = failure == SparkGone.__name__
    if hang is not None and status == -signal.SIGKILL:
        cause, detail = Cause.HANG, hang
    elif status < 0 or spark_gone:
        fatal = status == -signal.SIGKILL or spark_gone
        cause = Cause.OOM if fatal and killed_for_memory else Cause.EXIT if spark_gone else Cause.SIGNAL
        detail = detail if spark_gone else ending(status)
    elif status != ExitStatus.BUG and status in set(ExitStatus) and not unannounced:
        return None
    return Death(cause=cause, detail=detail, at=datetime.datetime.now(datetime.UTC))
