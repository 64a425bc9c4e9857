"""The watchdog: detects a span that is in progress for too long."""

from dataclasses import dataclass

from app.model.death import SECONDS_A_MESSAGE

#: most seconds that count between two checks. More pass only while the supervisor itself is frozen, with the whole
#: machine, container or process group; the worker could not work in that time either
MOST_SECONDS_A_LOOK = 1.0


@dataclass
class _WatchedSpan:
    messages: int
    #: seconds in progress that count
    seconds: float = 0.0


class Watchdog:
    """Spans in progress by key, with their time. The caller passes monotonic seconds: there is no clock here."""

    def __init__(self, message_timeout_seconds: float, now: float) -> None:
        self._timeout, self._checked_at = message_timeout_seconds, now
        self._spans: dict[str, _WatchedSpan] = {}
        #: whether any span has begun
        self.begun = False

    def begin(self, key: str, messages: int) -> None:
        """A span of `messages` messages begins; it replaces the span of `key`, if any."""
        self._spans[key] = _WatchedSpan(messages)
        self.begun = True

    def busy(self, key: str) -> None:
        """The server works for the span: its time begins anew."""
        if key in self._spans:
            self._spans[key].seconds = 0.0

    def end(self, key: str) -> None:
        """The span of `key`, if any, has ended."""
        self._spans.pop(key, None)

    def look(self, now: float) -> str | None:
        """A description of an overdue span, or None. Call it several times a second."""
        passed, self._checked_at = min(max(now - self._checked_at, 0.0), MOST_SECONDS_A_LOOK), now
        for span in self._spans.values():
            span.seconds += passed
            if span.seconds > self._timeout + span.messages * SECONDS_A_MESSAGE:
                return f"a span of at most {span.messages} messages in progress for {span.seconds:.0f} s"
        return None
