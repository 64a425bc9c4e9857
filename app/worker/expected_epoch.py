"""An epoch that is begun before Spark has planned it: what Spark plans of a backlog of one partition is known."""

import threading
from collections.abc import Callable

from app import failpoint
from app.errors import Contended
from app.model.offsets import Span
from app.spark.entries import Entries

#: seconds between two looks whether the plan is still to come
_LOOK_SECONDS = 0.1


class ExpectedEpoch:
    """One at a time. It is pre-committed only once Spark has planned it as it was expected: until then its transaction
    is open, and ends with its connection."""

    def __init__(self, entries: Entries, still: Callable[[], None], is_over: Callable[[], bool]) -> None:
        """`still` is called by the thread that waits, again and again; `is_over`: no plan will come any more."""
        self._entries, self._still, self._is_over = entries, still, is_over
        self._planned = threading.Condition()
        #: the newest planned epoch that was noticed
        self._newest = -1
        self._open: tuple[int, Span] | None = None
        #: whether Spark has planned all epochs so far as they were expected
        self.is_reliable = True

    def notice(self, number: int) -> None:
        """Epoch `number` is planned. By any thread."""
        with self._planned:
            self._newest = max(self._newest, number)
            self._planned.notify_all()

    def is_planned(self, number: int) -> bool:
        return self._newest >= number

    def expect(self, number: int, span: Span) -> None:
        """The epoch that is begun now."""
        self._open = number, span

    def forget(self) -> None:
        """It was not begun."""
        self._open = None

    def span(self, number: int) -> Span | None:
        """What the epoch has, if it is the expected one."""
        return self._open[1] if self._open is not None and self._open[0] == number else None

    def confirm(self) -> None:
        """Wait until the expected epoch, if there is one, is planned; raises Contended where it has other messages, or
        will not be planned."""
        if self._open is None:
            return
        failpoint.reach("before-plan")
        (number, span), self._open = self._open, None
        with self._planned:
            while self._newest < number and not self._planned.wait(_LOOK_SECONDS):
                self._still()
                if self._is_over():
                    raise Contended(f"epoch {number} was begun, and Spark does not plan it", hint="nothing")
        if (planned := self._entries.span(number)) != span:
            self.is_reliable = False
            raise Contended(
                f"epoch {number} was begun with {span.start} to {span.end}, and Spark has planned {planned.end}",
                hint="nothing: the lane opens anew, and waits for plans from now on",
            )
