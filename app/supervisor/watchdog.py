"""The watchdog: notices a span that is in progress for too long."""

from dataclasses import dataclass

from app.model.death import SECONDS_A_MESSAGE

#: seconds that may count between two looks. More passes only while the supervisor itself is frozen, with the whole
#: machine, container or process group; the worker then had no time to work either
MOST_SECONDS_A_LOOK = 1.0


@dataclass
class _Span:
    messages: int
    #: in progress for so long
    seconds: float = 0.0


class Watchdog:
    """Spans in progress by key, and for how long. StageConfig the time, so that it needs no clock."""

    def __init__(self, message_timeout_seconds: float, now: float) -> None:
        self._timeout, self._looked_at = message_timeout_seconds, now
        self._spans: dict[str, _Span] = {}
        #: whether any span was ever begun
        self.begun = False

    def begin(self, key: str, messages: int) -> None:
        """A span of so many messages is in progress, in place of the one that `key` had."""
        self._spans[key] = _Span(messages)
        self.begun = True

    def busy(self, key: str) -> None:
        """The server works for it: its time begins anew."""
        if key in self._spans:
            self._spans[key].seconds = 0.0

    def end(self, key: str) -> None:
        """It is not any more."""
        self._spans.pop(key, None)

    def look(self, now: float) -> str | None:
        """What is overdue, in words; None when nothing is. To be called several times a second."""
        passed, self._looked_at = min(max(now - self._looked_at, 0.0), MOST_SECONDS_A_LOOK), now
        for span in self._spans.values():
            span.seconds += passed
            if span.seconds > self._timeout + span.messages * SECONDS_A_MESSAGE:
                return f"a span of at most {span.messages} messages in progress for {span.seconds:.0f} s"
        return None
