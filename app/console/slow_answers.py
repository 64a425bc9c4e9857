"""Answers for a page that is open, of servers that may take their time: the page does not wait for them."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet

from app.cli.rendering import Document
from app.console.lag_reading import FRESH_SECONDS, PATIENCE_SECONDS
from app.errors import SurelaneError, Unreachable


class SlowAnswers:
    """One lane's, by name. At most one request of a name is on its way, and one answer is made at a time."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slow-answers")
        self._asked: dict[str, Future[Document]] = {}
        #: with the time of the answer
        self._seen: dict[str, tuple[Document | SurelaneError, float]] = {}

    def get(self, name: str, make: Callable[[], Document]) -> Document:
        """The newest answer. Raises what it ended with, or Unreachable while there is none yet."""
        asked = self._asked.get(name) or self._thread.submit(make)
        self._asked[name] = asked
        try:
            self._keep(name, asked.result(PATIENCE_SECONDS))
        except NotYet:
            pass
        except SurelaneError as error:
            self._keep(name, error)
        seen, at = self._seen.get(name, (None, 0.0))
        if seen is None or time.monotonic() - at > FRESH_SECONDS:
            raise Unreachable("Kafka has not answered yet")
        if isinstance(seen, SurelaneError):
            raise seen
        return seen

    def _keep(self, name: str, found: Document | SurelaneError) -> None:
        self._asked.pop(name, None)
        self._seen[name] = (found, time.monotonic())
