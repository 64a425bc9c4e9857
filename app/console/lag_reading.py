"""The lag of a lane for a page that is open: Kafka may take its time to answer, and the page does not wait for it."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet

from app.cli.lane_status import Report
from app.errors import Unreachable

#: seconds that a page waits for an answer
PATIENCE_SECONDS = 1.0
#: seconds for which an answer is shown while the next one is awaited
FRESH_SECONDS = 30.0


class LagReading:
    """One lane's. At most one request is on its way."""

    def __init__(self, measure: Callable[[Report], Report]) -> None:
        """`measure`: asks Kafka for the lag of the report's position."""
        self._measure = measure
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lag")
        self._asked: Future[tuple[Report, float]] | None = None
        self._seen: tuple[Report, float] | None = None

    def add_to(self, report: Report) -> Report:
        """The report with the newest lag that Kafka has given, or with why it is not known."""
        asked = self._asked = self._asked or self._thread.submit(self._ask, report)
        try:
            self._seen = asked.result(PATIENCE_SECONDS)
            self._asked = None
        except NotYet:
            pass
        if self._seen is None or time.monotonic() - self._seen[1] > FRESH_SECONDS:
            return report.without_lag(Unreachable("Kafka has not answered yet"))
        seen, _ = self._seen
        if seen.trouble is not None:
            return report.without_lag(seen.trouble)
        return report.lagging(seen.status.lag_messages, seen.status.lag_seconds)

    def _ask(self, report: Report) -> tuple[Report, float]:
        return self._measure(report), time.monotonic()
