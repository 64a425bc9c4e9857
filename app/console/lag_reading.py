"""The lag of a lane for a page that is open: Kafka may take its time to answer, and the page does not wait for it."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass

from app.cli.lane_status import Report
from app.errors import Unreachable

#: seconds that a page waits for an answer
PATIENCE_SECONDS = 1.0
#: seconds for which an answer is shown while the next one is awaited
FRESH_SECONDS = 30.0
#: seconds of the sparkline, and its most points
KEPT_SECONDS, KEPT_SAMPLES = 1800.0, 900


@dataclass(frozen=True)
class LagSample:
    """What Kafka has answered once."""

    #: seconds since 1970
    at: float
    messages: int
    #: age of the oldest message that is not applied; None: not known
    seconds: float | None


class LagReading:
    """One lane's. At most one request is on its way."""

    def __init__(self, measure: Callable[[Report], Report]) -> None:
        """`measure`: asks Kafka for the lag of the report's position."""
        self._measure = measure
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lag")
        self._asked: Future[tuple[Report, float]] | None = None
        self._seen: tuple[Report, float] | None = None
        self._samples: deque[LagSample] = deque(maxlen=KEPT_SAMPLES)

    @property
    def samples(self) -> list[LagSample]:
        """The lag while a page was open, the oldest first."""
        begin = time.time() - KEPT_SECONDS
        return [one for one in list(self._samples) if one.at > begin]

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
        found = self._measure(report)
        status = found.status
        if status.lag_messages is not None:
            self._samples.append(LagSample(time.time(), status.lag_messages, status.lag_seconds))
        return found, time.monotonic()
