"""Watches whether the server works for a lane that waits for it. If so, the supervisor's watchdog counts anew; a wait
for another session's lock is logged.

A session that computes, reads, writes or waits for a lock is no hang, however long it takes. The watchdog keeps
counting for a session that waits for this process, and for a server that does not answer the watch either.
"""

import threading
from collections.abc import Mapping

import structlog

from app.db.sessions import AtWork
from app.errors import SurelaneError
from app.supervisor.link import AtServer, Link
from app.worker.lane_writer import LaneWriter

log = structlog.get_logger()

#: seconds between two checks, and of a span's wait for the server before the first one
LOOK_SECONDS = 0.5
#: largest interval between two checks, as a share of the watchdog's timeout
_SHARE = 0.2
#: seconds after which a statement is logged: one that waits for a lock, and one that works
WAITS_SECONDS, WORKS_SECONDS = 2.0, 60.0
#: the next log line is due when the statement has taken so many times as long
_NEXT_LINE = 4.0
#: seconds that `stop` waits for the thread; a check of a server that is away takes longer
_STOP_SECONDS = 2.0


class ServerWatch:
    """A thread that checks the sessions of `writers`, which is keyed by lane name."""

    def __init__(self, link: Link, writers: Mapping[str, LaneWriter], message_timeout_seconds: float) -> None:
        self._link, self._writers = link, writers
        self._every = min(LOOK_SECONDS, message_timeout_seconds * _SHARE)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server watch", daemon=True)
        #: by lane and whether it waits for a lock: seconds of a statement at which the next log line is due
        self._due: dict[tuple[str, bool], float] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            spans = self._link.at_server(self._every)
            for span in spans:
                self._look(span)
            if not spans:
                self._due.clear()
        for one in [one for writer in self._writers.values() for one in writer.sessions]:
            one.looker.close()

    def _look(self, span: AtServer) -> None:
        at_work: list[AtWork] = []
        writer = self._writers.get(span.lane)
        for sessions in writer.sessions if writer is not None else ():
            try:
                at_work += sessions.at_work()
            except SurelaneError as error:
                log.debug("server watch", lane=span.lane, because=error.message)
        if at_work:
            self._link.busy(span.key, waits=any(one.waits for one in at_work))
        for one in at_work:
            self._log(span.lane, one)

    def _log(self, lane: str, one: AtWork) -> None:
        """Log the statement at WAITS_SECONDS or WORKS_SECONDS, then each time it has taken _NEXT_LINE times as long."""
        due = self._due.get((lane, one.waits), WAITS_SECONDS if one.waits else WORKS_SECONDS)
        if one.seconds < due:
            return
        self._due[lane, one.waits] = max(due, one.seconds) * _NEXT_LINE
        fields = {"lane": lane, "pid": one.pid, "seconds": round(one.seconds, 1)}
        if one.waits:
            log.warning("waits for a lock", **fields, blocked_by=list(one.blockers))
        else:
            log.warning("the server works on one statement", **fields)
